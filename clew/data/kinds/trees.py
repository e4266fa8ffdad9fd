"""Bracketed trees in the form that parsers learn: no traces, no function tags, one root."""

from collections.abc import Iterable, Iterator

from clew.core.errors import UserError
from clew.data.caching.parts import gather
from clew.data.corpora import read_corpus
from clew.data.corpora.contents import Trees
from clew.data.examples import Parsed
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.readers import read_parsed
from clew.data.syntax.trees import cleaned


class TreesData(ExampleData):
    """Where the trees come from: a corpus by name, or your own files."""


def read_tree_parts(data: TreesData, seed: int, notes: Notes) -> Parts:
    """Read trees in the form that parsers learn: no traces, no function tags, one root."""
    data.check_given(
        "there is no training data; name your trees with data.train, e.g. `clew train parse data.train=trees.mrg`"
    )
    if data.corpus is not None:
        parts = read_corpus(data.corpus, kind=Trees.kind, seed=seed, notes=notes)
        return {part: gather(clean(examples, notes)) for part, examples in parts.items()}
    return cut_files(lambda files: read_tree_files(files, data, notes), data, seed)


def read_tree_files(files: PartFiles, data: TreesData, notes: Notes) -> Iterator[Parsed]:
    if data.format not in (None, "trees"):
        raise UserError(f"data.format={data.format} is not a format of trees; leave it out, or set data.format=trees")
    return clean(read_parsed(files), notes)


def clean(examples: Iterable[Parsed], notes: Notes) -> Iterator[Parsed]:
    for example in examples:
        tree = cleaned(example.tree)
        if tree is None:
            notes.skip("tree of traces only", example.id)
        else:
            yield Parsed(tree, example.id)


TREES = Kind(name="trees", section=TreesData, read_parts=read_tree_parts, read_files=read_tree_files)
