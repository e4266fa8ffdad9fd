"""Texts, or two texts together, with a label, with several, or with a number: tables, and corpora of them."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic import Field

from clew.data.caching.parts import gather
from clew.data.corpora import get_corpus, read_corpus
from clew.data.corpora.contents import LabelTable, Trees
from clew.data.examples import Labelled, Parsed
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.notes import Notes
from clew.data.readers import read_labelled


class ColumnsData(TableData):
    """Where the labelled texts come from: a corpus by name, or files of one's own."""

    text: Column | None = Field(
        None, description="labelled texts, documents and JSON lines of text: the column of the text, by name or number"
    )
    label: Column | None = Field(
        None, description="labelled texts: the column of the label; of CoNLL-U trees a comment's name"
    )
    label_map: dict[str, str | None] | None = Field(
        None,
        description=(
            'other names for labels, such as {"0": bad, "1": bad, "2": null, "3": good}; null leaves its examples out'
        ),
    )


class LabelledData(ColumnsData):
    """Where the labelled texts come from: a corpus by name, or files of one's own."""

    second: Column | None = Field(
        None, description="labelled texts: the column of a second text, where two are judged together"
    )
    label_separator: str | None = Field(None, min_length=1, description="what parts several labels in a field")
    phrases: bool = Field(False, description="of trees with a label on every node, each phrase is a training example")


def labelled_of(data: LabelledData, seed: int, notes: Notes) -> Parts:
    """Texts with labels; an unsplit file is split so that every label has its share on both sides."""
    data.check_given(
        "data.train names your labelled texts, e.g. `clew train classify data.train=my.csv data.text=body"
        " data.label=queue`"
    )
    if data.corpus is None:
        return cut_files(lambda files: labelled_in(files, data, notes), data, seed, by_label=True)
    if isinstance(get_corpus(data.corpus).content, Trees):
        found = read_corpus(data.corpus, seed=seed, notes=notes)
        texts: dict[str, Iterable[Labelled]] = {part: map(label_of_all, examples) for part, examples in found.items()}
        if data.phrases:
            texts["train"] = chain.from_iterable(map(phrases_of, found["train"]))
    else:
        texts = dict(read_corpus(data.corpus, kind=LabelTable.kind, seed=seed, notes=notes))
    return {part: gather(renamed(examples, data, notes)) for part, examples in texts.items()}


def label_of_all(example: Parsed) -> Labelled:
    """A tree's words with the label of its root."""
    return Labelled(example.key, (example.tree.label,), id=example.id)


def phrases_of(example: Parsed) -> Iterator[Labelled]:
    """Every phrase of a tree with labels on all nodes, words among them (Socher et al. 2013)."""
    for number, node in enumerate(example.tree.nodes(), start=1):
        yield Labelled(" ".join(node.words), (node.label,), id=f"{example.id} phrase {number}")


def labelled_in(files: Given, data: LabelledData, notes: Notes) -> Iterator[Labelled]:
    options: dict[str, Any] = {
        "text": data.text,
        "second": data.second,
        "label": data.label,
        "label_separator": data.label_separator,
    }
    read = (read_labelled(file, format=data.format, header=data.header, notes=notes, **options) for file in files)
    return renamed(chain.from_iterable(read), data, notes)


def renamed(examples: Iterable[Labelled], data: LabelledData, notes: Notes) -> Iterator[Labelled]:
    """Labels by their other names; an example whose label has none is left out."""
    names = data.label_map
    for example in examples:
        if names is None:
            yield example
            continue
        labels = [names.get(label, label) for label in example.labels]
        if None in labels:
            notes.skip("labels that data.label_map leaves out", example.id)
        else:
            yield example._replace(labels=tuple(dict.fromkeys(label for label in labels if label is not None)))


def labelled_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """(text, label), or (text, second, label); several labels are a list."""
    for example in read_labelled(examples, notes=notes):
        second = {} if example.second is None else {"second": example.second}
        yield {
            "text": example.text,
            **second,
            "label": example.labels[0] if len(example.labels) == 1 else example.labels,
        }


LABELLED = Kind(
    name="labelled texts", section=LabelledData, read_parts=labelled_of, read_files=labelled_in, rows=labelled_rows
)
