"""Graphs with a label for each node: sentences with dependencies in CoNLL-U, corpora of them, JSON lines, and drawn
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
from clew.data.kinds.captioned import part_sizes
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut, cut_files
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.readers import wrong_format
from clew.data.synthetic.scene_regions import REGIONS, region_scenes


class DependencyGraphsData(ExampleData):
    """Where the sentences come from: a corpus by name, or your own files; and which labels of their words to learn."""

    label: str = Field(
        "deprel",
        min_length=1,
        description=(
            "the label of a word: deprel, upos, xpos, another column of CoNLL-U, or a feature such as feats:Number; in"
            " JSON lines, the field with the labels of nodes, `labels` if there is none with this name"
        ),
    )
    size: int = Field(3000, ge=1, description="drawn scenes: their number")


def read_graph_parts(data: DependencyGraphsData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "there is no training data; name your sentences with data.train, e.g. `clew train label-nodes"
        " data.train=train.conllu data.label=deprel`"
    )
    if data.corpus is None:
        return cut_files(lambda files: read_graph_files(files, data, notes), data, seed)
    if data.corpus == REGIONS:
        return {
            part: [scene.graph for scene in region_scenes(count, seed, part)]
            for part, count in part_sizes(data).items()
        }
    if not has_graphs(data.corpus):
        able = ", ".join([*(name for name in CORPORA if has_graphs(name)), REGIONS])
        raise UserError(
            f"the corpus {data.corpus} has no dependencies; this task reads words with heads, such as {able}"
        )
    parts = {part: gather(read_graph_files(files, data, notes)) for part, files in find_files(data.corpus).items()}
    return cut(parts["train"], data, seed, parts.get("valid"), parts.get("test"))


def has_graphs(corpus: str) -> bool:
    content = get_corpus(corpus).content
    return isinstance(content, Tagged) and FORMATS[content.format].dependency_graphs is not None


def read_graph_files(files: PartFiles, data: DependencyGraphsData, notes: Notes) -> Iterator[Sentence]:
    return chain.from_iterable(read_graphs(expand_home(file), data.label, data.format, notes) for file in files)


def read_graphs(path: Path, label: str | None, format: str | None, notes: Notes) -> Iterator[Sentence]:
    """Read the sentences of a file; without a label, sentences whose labels are to be predicted."""
    format = find_format(path, format)
    reader = FORMATS[format].dependency_graphs
    if reader is None:
        raise wrong_format(path, format, "words with heads", lambda other: other.dependency_graphs is not None)
    return reader(path, label, notes)


DEPENDENCY_GRAPHS = Kind(
    name="dependency graphs", section=DependencyGraphsData, read_parts=read_graph_parts, read_files=read_graph_files
)
