"""Trees with a class at every node, or at the root: brackets, tables of them, CoNLL-U, and corpora."""

from collections.abc import Callable, Iterator
from typing import Any

from clew.core.errors import UserError
from clew.data.caching.parts import gather
from clew.data.corpora import get_corpus, read_corpus
from clew.data.corpora.contents import LabelTable, Trees
from clew.data.examples import LabelledTree
from clew.data.formats.tree_files import labelled_nodes
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.labelled import ColumnsData
from clew.data.notes import Notes
from clew.data.syntax.labelled_trees import labelled_roots, read_labelled_trees, renamed_nodes


class LabelledTreesData(ColumnsData):
    """Where the labelled trees come from: a corpus by name, or files of one's own."""


def labelled_trees_of(data: LabelledTreesData, seed: int, notes: Notes) -> Parts:
    """Trees with labels at all nodes, or at the root; an unsplit file is split as texts with labels are."""
    data.check_given("data.train names your labelled trees, e.g. `clew train classify-trees data.train=trees.txt`")
    if data.corpus is None:
        return cut_files(lambda files: labelled_trees_in(files, data, notes), data, seed, by_label=True)
    content = get_corpus(data.corpus).content
    if not isinstance(content, (Trees, LabelTable)):
        raise UserError(
            f"the corpus {data.corpus} holds {content.kind}; this task reads trees with labels, such as"
            " gum-trees-sample, sst"
        )
    as_trees: Callable[[Any, Notes], Iterator[LabelledTree]] = (
        labelled_nodes if isinstance(content, Trees) else labelled_roots
    )
    found = read_corpus(data.corpus, seed=seed, notes=notes)
    return {
        part: gather(renamed_nodes(as_trees(examples, notes), data.label_map or {}, notes))
        for part, examples in found.items()
    }


def labelled_trees_in(files: Given, data: LabelledTreesData, notes: Notes) -> Iterator[LabelledTree]:
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
    name="labelled trees", section=LabelledTreesData, read_parts=labelled_trees_of, read_files=labelled_trees_in
)
