"""Read trees to classify: bracketed trees with a class at every node, a table of bracketed trees with one class each,
or dependency trees in CoNLL-U with the class in a comment of the sentence (`# s_type = decl`)."""

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
    """Read the trees of a file. In a table, `text` and `label` are columns; in CoNLL-U, `label` is the name of a
    comment. `label_map` renames labels, or removes them (None); trees whose root has no label are skipped, and
    `notes` counts them."""
    notes = Notes() if notes is None else notes
    path = expand_home(path)
    format = find_format(path, format, tables_alone=True)
    reader = FORMATS[format].labelled_trees
    if reader is not None:
        trees = reader(path, label, notes)
    else:
        trees = labelled_roots(
            read_labelled(path, text=text, label=label, format=format, header=header, notes=notes), notes
        )
    return at_least_one(renamed_nodes(trees, label_map or {}, notes), path, notes)


def labelled_roots(examples: Iterable[Labelled], notes: Notes) -> Iterator[LabelledTree]:
    """Parse texts that are bracketed trees. The class is the root's; the labels in the brackets are phrase names."""
    for example in examples:
        tree = tree_of(example, notes)
        if tree is not None:
            nodes, shape = phrase_nodes(tree)
            labels = (*[None] * (len(nodes) - 1), example.label)
            yield LabelledTree(
                tuple(tree.words), shape, labels, tuple(node.label for node in nodes if not node.is_leaf), example.id
            )


def unlabelled(tree: str | Tree | Sentence, place: str) -> LabelledTree:
    """Make an example without classes from a bracketed tree, whose labels are phrase names, or from words with
    heads."""
    if isinstance(tree, Sentence):
        if not tree.words or tree.heads is None or tree.heads.count(0) != 1:
            raise UserError(
                f"{place}: a dependency tree needs a head for each of its words, and exactly one head 0, the root"
            )
        return LabelledTree(tree.words, head_nodes(tree.heads), (None,) * len(tree.words), id=place)
    tree = one_tree(tree, place) if isinstance(tree, str) else tree
    nodes, shape = phrase_nodes(tree)
    return LabelledTree(
        tuple(tree.words), shape, (None,) * len(nodes), tuple(node.label for node in nodes if not node.is_leaf), place
    )


def as_brackets(example: LabelledTree) -> str | None:
    """Write a phrase tree on one line, with its phrase names, or else its classes, as labels; None for a dependency
    tree."""
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
    """Parse a text as one tree; a fault is added to `notes`, and None returned."""
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
        raise UserError(f"{place}: expected 1 tree, found {len(trees)}; put each on its own line")
    return trees[0]


def renamed_nodes(examples: Iterable[LabelledTree], label_map: LabelMap, notes: Notes) -> Iterator[LabelledTree]:
    """Rename labels; those that the map does not contain are kept."""
    seen: set[str] = set()
    for example in examples:
        seen.update(label for label in example.labels if label is not None)
        labels = tuple(None if label is None else label_map.get(label, label) for label in example.labels)
        if labels[example.root] is None:
            notes.skip("trees whose label data.label_map leaves out", example.id)
        else:
            yield example._replace(labels=labels)
    if seen and label_map and seen.isdisjoint(label_map):
        raise UserError(f"data.label_map has none of the labels in the data: {listed(sorted(seen))}")


def at_least_one(examples: Iterator[LabelledTree], path: Path, notes: Notes) -> Iterator[LabelledTree]:
    has_trees = False
    for example in examples:
        has_trees = True
        yield example
    check_found(has_trees, path, False, notes)
