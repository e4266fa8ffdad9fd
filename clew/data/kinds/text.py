"""Running text in parts, from a corpus by name, or from your own file or folder."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.data.corpora import find_corpus, holds_sentences, read_corpus_lines
from clew.data.example_splits import PARTS
from clew.data.files.text_files import FIELD, TextSource, TextString, find_text
from clew.data.kinds.section import Column, DataSection
from clew.data.splits import split_text
from clew.data.streams.text_streams import stream_of


class PlainTextData(DataSection):
    """Where text comes from: a corpus by name, or your own file or folder."""

    text: Column | None = Field(
        None, description="labelled texts, documents and JSON lines of text: the column of the text, by name or number"
    )

    @property
    def field(self) -> str:
        """The field of JSON lines that holds the text."""
        return FIELD if self.text is None else str(self.text)


class TextData(PlainTextData):
    """Where the text comes from: a corpus by name, or your own file or folder, which may be read as a stream."""

    stream: bool = Field(
        False,
        description=(
            "for your own files: encode the text during training, not before, so that its ids need no disk space"
        ),
    )
    shuffle_window: int = Field(
        10_000,
        ge=1,
        description=(
            "a stream: how many documents are shuffled together; at most as many as have 8 million characters"
        ),
    )


def find_texts(data: PlainTextData) -> dict[str, TextSource]:
    """Return the text's parts by name: train, valid, and test if there is one."""
    data.check_given(
        "there is no training data; name your text with data.train, e.g. `clew train text-lstm data.train=book.txt`"
    )
    parts = corpus_parts(data.corpus) if data.corpus is not None else named_files(data)
    return split_text(
        parts["train"],
        parts.get("valid"),
        parts.get("test"),
        valid_fraction=data.valid_fraction,
        test_fraction=data.test_fraction,
        cache=cache_folder(),
        field=data.field,
    )


def find_streamed(data: TextData) -> dict[str, TextSource]:
    """Return the parts of a text that is streamed in training. Valid and test are files, or its first documents."""
    if data.corpus is not None:
        raise UserError(
            "data.stream=true is for your own files; name them with data.corpus=null data.train=FOLDER, or leave it out"
        )
    paths = named_files(data)
    if "train" not in paths:
        raise UserError("data.stream=true needs the files to stream; name them with data.train=FOLDER")
    parts = {name: find_text(path, data.field) for name, path in paths.items() if name != "train"}
    fractions = {name: getattr(data, f"{name}_fraction") for name in PARTS[1:] if name not in parts}
    whole = stream_of(paths["train"], data.field, data.shuffle_window)
    return {**whole.hold_out({name: fraction for name, fraction in fractions.items() if fraction}), **parts}


def corpus_parts(name: str) -> Mapping[str, Path | TextSource]:
    """Return the text of a corpus. A corpus of sentences becomes lines, one for each sentence as a model reads it."""
    if holds_sentences(name):
        return {part: TextString(text) for part, text in read_corpus_lines(name).items()}
    return {part: file for part, file in find_corpus(name)._asdict().items() if file is not None}


def named_files(data: PlainTextData) -> Mapping[str, Path]:
    """Return the files or folders that the config names, by part."""
    paths = {}
    for part in PARTS:
        path = getattr(data, part)
        if isinstance(path, list):
            raise UserError(f"data.{part} is a list, but a text is one file or folder; put its files into a folder")
        if path is not None:
            paths[part] = data.with_encoding(path)
    return paths


def find_own_text(path: Path | str, data: PlainTextData) -> TextSource:
    """Return the text of a file or folder, read as the config says."""
    return find_text(data.with_encoding(path), data.field)
