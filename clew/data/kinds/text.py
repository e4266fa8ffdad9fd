"""Running text: a corpus by name, or a file or folder of one's own, in parts of one text."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.data.corpora import find_corpus, holds_sentences, read_lines
from clew.data.example_splits import PARTS
from clew.data.kinds.section import Column, DataSection
from clew.data.splits import split_text
from clew.data.text_files import FIELD, TextSource, TextString, find_text


class TextData(DataSection):
    """Where the text comes from: a corpus by name, or a file or folder of one's own."""

    text: Column | None = Field(
        None, description="labelled texts, documents and JSON lines of text: the column of the text, by name or number"
    )

    @property
    def field(self) -> str:
        """The field of JSON lines that has the text."""
        return FIELD if self.text is None else str(self.text)


def find_texts(data: TextData) -> dict[str, TextSource]:
    """The text's parts by name: train, valid, and test where there is one."""
    data.check_given("data.train names your text, e.g. `clew train text-lstm data.train=book.txt`")
    parts = corpus_parts(data.corpus) if data.corpus is not None else own_parts(data)
    return split_text(
        parts["train"],
        parts.get("valid"),
        parts.get("test"),
        valid_fraction=data.valid_fraction,
        test_fraction=data.test_fraction,
        cache=cache_folder(),
        field=data.field,
    )


def corpus_parts(name: str) -> Mapping[str, Path | TextSource]:
    """The text of a corpus, or of one that holds sentences what a model would read of them, a line each."""
    if holds_sentences(name):
        return {part: TextString(text) for part, text in read_lines(name).items()}
    return {part: file for part, file in find_corpus(name)._asdict().items() if file is not None}


def own_parts(data: TextData) -> Mapping[str, Path]:
    """The files or folders that are named."""
    found = {}
    for part in PARTS:
        path = getattr(data, part)
        if isinstance(path, list):
            raise UserError(f"data.{part} is a list, but a text is one file or folder; put its files into a folder")
        if path is not None:
            found[part] = data.given(path)
    return found


def text_of(path: Path | str, data: TextData) -> TextSource:
    """The text of a file or folder, read as the config says."""
    return find_text(data.given(path), data.field)
