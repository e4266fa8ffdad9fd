"""Trees to classify: bracketed ones with a class at every node, a table of bracketed trees with a class each, or
dependency trees in CoNLL-U with the class in a comment of the sentence (`# s_type = decl`)."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from clew.core.errors import UserError
from clew.core.tree_nodes import NONE, head_nodes, phrase_nodes
from clew.core.trees import Tree
from clew.data.examples import Labelled, LabelledTree, Sentence
from clew.data.files.given_files import expand_home
from clew.data.formats import FORMATS, find_format
from clew.data.notes import Notes
from clew.data.readers import read_labelled
from clew.data.records import Column, check_found, listed
from clew.data.syntax.trees import escape, parse_trees

LabelMap = Mapping[str, str | None]


def read_labelled_trees(
    path: Path | str,
    *,
    text: Column | None = None,
    label: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    label_map: LabelMap | None = None,
    notes: Notes | None = None,
) -> Iterator[LabelledTree]:
    """The trees of a file. Of a table `text` and `label` are columns; of CoNLL-U `label` is the name of a comment.
    `label_map` gives labels other names; a node whose label becomes None has none, and a tree whose root has none is
    left out, and counted."""
    notes = Notes() if notes is None else notes
    path = expand_home(path)
    format = find_format(path, format, tables_alone=True)
    reader = FORMATS[format].labelled_trees
    if reader is not None:
        found = reader(path, label, notes)
    else:
        found = labelled_roots(
            read_labelled(path, text=text, label=label, format=format, header=header, notes=notes), notes
        )
    return some(renamed_nodes(found, label_map or {}, notes), path, notes)


def labelled_roots(examples: Iterable[Labelled], notes: Notes) -> Iterator[LabelledTree]:
    """Texts that are bracketed trees, each with a class; the nodes' labels are names of phrases."""
    for example in examples:
        tree = tree_of(example, notes)
        if tree is not None:
            nodes, shape = phrase_nodes(tree)
            labels = (*[None] * (len(nodes) - 1), example.label)
            yield LabelledTree(
                tuple(tree.words), shape, labels, tuple(node.label for node in nodes if not node.is_leaf), example.id
            )


def unlabelled(tree: str | Tree | Sentence, place: str) -> LabelledTree:
    """A tree to classify: brackets, whose labels are the names of phrases, or words with heads."""
    if isinstance(tree, Sentence):
        if not tree.words or tree.heads is None or tree.heads.count(0) != 1:
            raise UserError(
                f"{place}: a dependency tree needs a head for each of its words, and one of them is 0, the root's"
            )
        return LabelledTree(tree.words, head_nodes(tree.heads), (None,) * len(tree.words), id=place)
    tree = one_tree(tree, place) if isinstance(tree, str) else tree
    nodes, shape = phrase_nodes(tree)
    return LabelledTree(
        tuple(tree.words), shape, (None,) * len(nodes), tuple(node.label for node in nodes if not node.is_leaf), place
    )


def as_brackets(example: LabelledTree) -> str | None:
    """A phrase tree on one line, its classes or names as labels; None for a dependency tree."""
    num_words = len(example.words)
    if len(example.labels) == num_words > 1:
        return None
    below: list[dict[int, str]] = [{0: escape(word)} for word in example.words] + [
        {} for _ in example.labels[num_words:]
    ]
    names = [*["X"] * num_words, *example.phrases] if example.phrases else [label or "X" for label in example.labels]
    for parent, slot, name, inside in zip(*example.nodes, names, below, strict=True):
        text = f"({name} {' '.join(inside[place] for place in sorted(inside))})"
        if parent == NONE:
            return text
        below[parent][slot] = text
    return None


def tree_of(example: Labelled, notes: Notes) -> Tree | None:
    """The tree that a text is; None where the fault is noted."""
    try:
        return one_tree(example.text, example.id)
    except UserError as error:
        notes.fault("broken tree", example.id, str(error).removeprefix(f"{example.id}: "))
        return None


def one_tree(text: str, place: str) -> Tree:
    try:
        trees = parse_trees(text, place)
    except UserError as error:
        raise UserError(str(error).replace(f"{place}:1: ", f"{place}: ", 1)) from None
    if len(trees) > 1:
        raise UserError(f"{place}: expected 1 tree, found {len(trees)}; put each on a line of its own")
    return trees[0]


def renamed_nodes(examples: Iterable[LabelledTree], label_map: LabelMap, notes: Notes) -> Iterator[LabelledTree]:
    """Labels by their new names; a label that the map does not have stays."""
    seen: set[str] = set()
    for example in examples:
        seen.update(label for label in example.labels if label is not None)
        labels = tuple(None if label is None else label_map.get(label, label) for label in example.labels)
        if labels[example.root] is None:
            notes.skip("trees whose label data.label_map leaves out", example.id)
        else:
            yield example._replace(labels=labels)
    if seen and label_map and seen.isdisjoint(label_map):
        raise UserError(f"data.label_map has none of the labels that are there: {listed(sorted(seen))}")


def some(examples: Iterator[LabelledTree], path: Path, notes: Notes) -> Iterator[LabelledTree]:
    found = False
    for example in examples:
        found = True
        yield example
    check_found(found, path, False, notes)
