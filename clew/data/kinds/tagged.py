"""Words with a tag each: CoNLL columns, CoNLL-U, JSON lines, and corpora of them."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic import Field

from clew.data.corpora import read_corpus
from clew.data.corpora.contents import Tagged
from clew.data.examples import Sentence
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import Column, ExampleData
from clew.data.notes import Notes
from clew.data.readers import read_sentences


class TaggedData(ExampleData):
    """Where the tagged words come from: a corpus by name, or your own files."""

    words: Column | None = Field(None, description="tagged words: the column of the word, by name or number")
    tags: Column | None = Field(None, description="tagged words: the column of the tag; for a corpus, the kind of tags")


def read_tagged_parts(data: TaggedData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "there is no training data; name your tagged words with data.train, e.g. `clew train tag data.train=train.conll"
        " data.words=1 data.tags=4`"
    )
    if data.corpus is not None:
        tags = None if data.tags is None else str(data.tags)
        return dict(read_corpus(data.corpus, tags=tags, kind=Tagged.kind, seed=seed, notes=notes))
    return cut_files(lambda files: read_tagged_files(files, data, notes), data, seed)


def read_tagged_files(files: PartFiles, data: TaggedData, notes: Notes) -> Iterator[Sentence]:
    return chain.from_iterable(
        read_sentences(file, words=data.words, tags=data.tags, format=data.format, with_heads=False, notes=notes)
        for file in files
    )


def tagged_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield (words, tags)."""
    for example in read_sentences(examples, notes=notes):
        yield {"words": example.words, "tags": example.tags}


TAGGED = Kind(
    name="tagged words",
    section=TaggedData,
    read_parts=read_tagged_parts,
    read_files=read_tagged_files,
    rows=tagged_rows,
)
