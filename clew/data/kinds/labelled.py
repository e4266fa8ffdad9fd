"""Texts, or pairs of texts, with a label, several labels, or a number: tables, and corpora of them."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic import Field

from clew.data.caching.parts import gather
from clew.data.corpora import get_corpus, read_corpus
from clew.data.corpora.contents import LabelTable, Trees
from clew.data.examples import Labelled, Parsed
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.notes import Notes
from clew.data.readers import read_labelled


class ColumnsData(TableData):
    """Where the labelled texts come from: a corpus by name, or your own files."""

    text: Column | None = Field(
        None, description="labelled texts, documents and JSON lines of text: the column of the text, by name or number"
    )
    label: Column | None = Field(
        None, description="labelled texts: the column of the label; for CoNLL-U trees, the name of a comment"
    )
    label_map: dict[str, str | None] | None = Field(
        None,
        description=(
            'new names for labels, such as {"0": bad, "1": bad, "2": null, "3": good}; null leaves out the examples of'
            " a label"
        ),
    )


class LabelledData(ColumnsData):
    """Where the labelled texts come from: a corpus by name, or your own files."""

    second: Column | None = Field(
        None, description="labelled texts: the column of a second text, if two are judged together"
    )
    label_separator: str | None = Field(None, min_length=1, description="the separator of several labels in a field")
    phrases: bool = Field(False, description="for trees with a label on every node, each phrase is a training example")


def read_labelled_parts(data: LabelledData, seed: int, notes: Notes) -> Parts:
    """Read texts with labels. A file without parts is split so that labels keep their proportions."""
    data.check_given(
        "there is no training data; name your labelled texts with data.train, e.g. `clew train classify"
        " data.train=my.csv data.text=body data.label=queue`"
    )
    if data.corpus is None:
        return cut_files(lambda files: read_labelled_files(files, data, notes), data, seed, by_label=True)
    if isinstance(get_corpus(data.corpus).content, Trees):
        trees = read_corpus(data.corpus, seed=seed, notes=notes)
        texts: dict[str, Iterable[Labelled]] = {part: map(label_of_all, examples) for part, examples in trees.items()}
        if data.phrases:
            texts["train"] = chain.from_iterable(map(phrases_of, trees["train"]))
    else:
        texts = dict(read_corpus(data.corpus, kind=LabelTable.kind, seed=seed, notes=notes))
    return {part: gather(renamed(examples, data, notes)) for part, examples in texts.items()}


def label_of_all(example: Parsed) -> Labelled:
    """Return a tree's words with the label of its root."""
    return Labelled(example.key, (example.tree.label,), id=example.id)


def phrases_of(example: Parsed) -> Iterator[Labelled]:
    """Yield every phrase of a tree with labels on all nodes, single words included (Socher et al. 2013)."""
    for number, node in enumerate(example.tree.nodes(), start=1):
        yield Labelled(" ".join(node.words), (node.label,), id=f"{example.id} phrase {number}")


def read_labelled_files(files: PartFiles, data: LabelledData, notes: Notes) -> Iterator[Labelled]:
    options: dict[str, Any] = {
        "text": data.text,
        "second": data.second,
        "label": data.label,
        "label_separator": data.label_separator,
    }
    read = (read_labelled(file, format=data.format, header=data.header, notes=notes, **options) for file in files)
    return renamed(chain.from_iterable(read), data, notes)


def renamed(examples: Iterable[Labelled], data: LabelledData, notes: Notes) -> Iterator[Labelled]:
    """Rename labels with `label_map`; an example whose label becomes null is left out."""
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
    """Yield (text, label), or (text, second, label); several labels are a list."""
    for example in read_labelled(examples, notes=notes):
        second = {} if example.second is None else {"second": example.second}
        yield {
            "text": example.text,
            **second,
            "label": example.labels[0] if len(example.labels) == 1 else example.labels,
        }


LABELLED = Kind(
    name="labelled texts",
    section=LabelledData,
    read_parts=read_labelled_parts,
    read_files=read_labelled_files,
    rows=labelled_rows,
)
