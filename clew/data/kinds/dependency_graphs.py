"""Graphs with a label for each node: sentences with their dependencies in CoNLL-U, corpora of it, JSON lines, and drawn
scenes."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pydantic import Field

from clew.core.errors import UserError
from clew.data.caching.parts import gather
from clew.data.corpora import CORPORA, find_files, get_corpus
from clew.data.corpora.contents import Tagged
from clew.data.examples import Sentence
from clew.data.files.given_files import expand_home
from clew.data.formats import FORMATS, find_format
from clew.data.kinds.captioned import sizes_of
from clew.data.kinds.kind import Given, Kind, Parts, cut, cut_files
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.readers import wrong_format
from clew.data.synthetic.scene_regions import REGIONS, region_scenes


class DependencyGraphsData(ExampleData):
    """Where the sentences come from: a corpus by name, or files of one's own; and what of their words is to be told."""

    label: str = Field(
        "deprel",
        min_length=1,
        description=(
            "what is told of a word: deprel, upos, xpos, another column of CoNLL-U, or a feature: feats:Number; of JSON"
            " lines the field with the labels of nodes, `labels` where there is none of this name"
        ),
    )
    size: int = Field(3000, ge=1, description="drawn scenes: how many")


def graphs_of(data: DependencyGraphsData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "data.train names your sentences, e.g. `clew train label-nodes data.train=train.conllu data.label=deprel`"
    )
    if data.corpus is None:
        return cut_files(lambda files: graphs_in(files, data, notes), data, seed)
    if data.corpus == REGIONS:
        return {
            part: [scene.graph for scene in region_scenes(count, seed, part)] for part, count in sizes_of(data).items()
        }
    if not has_graphs(data.corpus):
        able = ", ".join([*(name for name in CORPORA if has_graphs(name)), REGIONS])
        raise UserError(
            f"the corpus {data.corpus} has no dependencies; this task reads words with heads, such as those of {able}"
        )
    parts = {part: gather(graphs_in(files, data, notes)) for part, files in find_files(data.corpus).items()}
    return cut(parts["train"], data, seed, parts.get("valid"), parts.get("test"))


def has_graphs(corpus: str) -> bool:
    content = get_corpus(corpus).content
    return isinstance(content, Tagged) and FORMATS[content.format].dependency_graphs is not None


def graphs_in(files: Given, data: DependencyGraphsData, notes: Notes) -> Iterator[Sentence]:
    return chain.from_iterable(read_graphs(expand_home(file), data.label, data.format, notes) for file in files)


def read_graphs(path: Path, label: str | None, format: str | None, notes: Notes) -> Iterator[Sentence]:
    """The sentences of a file; without a label those to tell something of."""
    format = find_format(path, format)
    reader = FORMATS[format].dependency_graphs
    if reader is None:
        raise wrong_format(path, format, "words with heads", lambda other: other.dependency_graphs is not None)
    return reader(path, label, notes)


DEPENDENCY_GRAPHS = Kind(
    name="dependency graphs", section=DependencyGraphsData, read_parts=graphs_of, read_files=graphs_in
)
