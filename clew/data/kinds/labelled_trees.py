"""Trees with a class at every node, or at the root: brackets, tables of them, CoNLL-U, and corpora."""

from collections.abc import Callable, Iterator
from typing import Any

from clew.core.errors import UserError
from clew.data.caching.parts import gather
from clew.data.corpora import get_corpus, read_corpus
from clew.data.corpora.contents import LabelTable, Trees
from clew.data.examples import LabelledTree
from clew.data.formats.tree_files import labelled_nodes
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.labelled import ColumnsData
from clew.data.notes import Notes
from clew.data.syntax.labelled_trees import labelled_roots, read_labelled_trees, renamed_nodes


class LabelledTreesData(ColumnsData):
    """Where the labelled trees come from: a corpus by name, or your own files."""


def read_labelled_tree_parts(data: LabelledTreesData, seed: int, notes: Notes) -> Parts:
    """Read trees with labels at all nodes, or at the root. A file without parts is split as labelled texts are."""
    data.check_given(
        "there is no training data; name your labelled trees with data.train, e.g. `clew train classify-trees"
        " data.train=trees.txt`"
    )
    if data.corpus is None:
        return cut_files(lambda files: read_labelled_tree_files(files, data, notes), data, seed, by_label=True)
    content = get_corpus(data.corpus).content
    if not isinstance(content, (Trees, LabelTable)):
        raise UserError(
            f"the corpus {data.corpus} holds {content.kind}; this task reads trees with labels, such as"
            " gum-trees-sample, sst"
        )
    as_trees: Callable[[Any, Notes], Iterator[LabelledTree]] = (
        labelled_nodes if isinstance(content, Trees) else labelled_roots
    )
    parts = read_corpus(data.corpus, seed=seed, notes=notes)
    return {
        part: gather(renamed_nodes(as_trees(examples, notes), data.label_map or {}, notes))
        for part, examples in parts.items()
    }


def read_labelled_tree_files(files: PartFiles, data: LabelledTreesData, notes: Notes) -> Iterator[LabelledTree]:
    for file in files:
        yield from read_labelled_trees(
            file,
            text=data.text,
            label=data.label,
            format=data.format,
            header=data.header,
            label_map=data.label_map,
            notes=notes,
        )


LABELLED_TREES = Kind(
    name="labelled trees",
    section=LabelledTreesData,
    read_parts=read_labelled_tree_parts,
    read_files=read_labelled_tree_files,
)
