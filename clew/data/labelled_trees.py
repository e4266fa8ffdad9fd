"""Trees to classify: bracketed ones with a class at every node, a table of bracketed trees with a class each, or dependency trees in
CoNLL-U with the class in a comment of the sentence (`# s_type = decl`)."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from clew.core.errors import UserError
from clew.core.tree_nodes import NONE, head_nodes, phrase_nodes
from clew.core.trees import Tree
from clew.data.conll_files import Block, as_sentence
from clew.data.conllu_files import COLUMNS, read_conllu_blocks
from clew.data.examples import Labelled, LabelledTree, Parsed, Sentence
from clew.data.formats import find_format
from clew.data.notes import Notes
from clew.data.readers import read_labelled
from clew.data.records import Column, check_found, listed
from clew.data.trees import escape, parse_trees, placed_trees

LabelMap = Mapping[str, str | None]
FORM, HEAD = COLUMNS.index("form"), COLUMNS.index("head")


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
    """The trees of a file. Of a table `text` and `label` are columns; of CoNLL-U `label` is the name of a comment. `label_map` gives labels
    other names; a node whose label becomes None has none, and a tree whose root has none is left out, and counted."""
    notes = Notes() if notes is None else notes
    path = Path(path).expanduser()
    format = find_format(path, format, tables_alone=True)
    if format in ("trees", "lines"):  # a file of single words, or of no trees at all
        found = labelled_nodes((Parsed(tree, place) for tree, place in placed_trees(path)), notes)
    elif format == "conllu":
        found = dependency_trees(path, label, notes)
    else:
        found = labelled_roots(read_labelled(path, text=text, label=label, format=format, header=header, notes=notes), notes)
    return some(renamed_nodes(found, label_map or {}, notes), path, notes)


def labelled_nodes(examples: Iterable[Parsed], notes: Notes) -> Iterator[LabelledTree]:
    """Trees whose nodes' labels are classes."""
    for tree, place in examples:
        if tree.label == "":
            notes.fault(
                "node without a label", place, "the root has no label; every node of a labelled tree needs one, such as (3 (2 It) ...)"
            )
            continue
        nodes, shape = phrase_nodes(tree)
        yield LabelledTree(tuple(tree.words), shape, tuple(node.label for node in nodes), id=place)


def labelled_roots(examples: Iterable[Labelled], notes: Notes) -> Iterator[LabelledTree]:
    """Texts that are bracketed trees, each with a class; the nodes' labels are names of phrases."""
    for example in examples:
        tree = tree_of(example, notes)
        if tree is not None:
            nodes, shape = phrase_nodes(tree)
            labels = (*[None] * (len(nodes) - 1), example.label)
            yield LabelledTree(tuple(tree.words), shape, labels, tuple(node.label for node in nodes if not node.is_leaf), example.id)


def unlabelled(tree: str | Tree | Sentence, place: str) -> LabelledTree:
    """A tree to classify: brackets, whose labels are the names of phrases, or words with heads."""
    if isinstance(tree, Sentence):
        if not tree.words or tree.heads is None or tree.heads.count(0) != 1:
            raise UserError(f"{place}: a dependency tree needs a head for each of its words, and one of them is 0, the root's")
        return LabelledTree(tree.words, head_nodes(tree.heads), (None,) * len(tree.words), id=place)
    tree = one_tree(tree, place) if isinstance(tree, str) else tree
    nodes, shape = phrase_nodes(tree)
    return LabelledTree(tuple(tree.words), shape, (None,) * len(nodes), tuple(node.label for node in nodes if not node.is_leaf), place)


def as_brackets(example: LabelledTree) -> str | None:
    """A phrase tree on one line, its classes or names as labels; None for a dependency tree."""
    num_words = len(example.words)
    if len(example.labels) == num_words > 1:
        return None
    below: list[dict[int, str]] = [{0: escape(word)} for word in example.words] + [{} for _ in example.labels[num_words:]]
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


def dependency_trees(path: Path, label: Column | None, notes: Notes) -> Iterator[LabelledTree]:
    """Sentences with heads; their roots have the class that a comment tells."""
    blocks = read_conllu_blocks(path, notes)
    first = next(blocks, None)
    if label is None and first is not None:
        there = listed(list(first.comments)) or "none"
        raise UserError(f"{path}: the labels of CoNLL-U sentences are in comments; say which with data.label=NAME; there are: {there}")
    for block in chain([] if first is None else [first], blocks):
        columns = {"words": tuple(row[FORM] for row in block.rows), "heads": tuple(row[HEAD] for row in block.rows)}
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is None:
            continue
        if sentence.heads is None or sentence.heads.count(0) > 1:
            rule = "the words have no heads" if sentence.heads is None else f"{sentence.heads.count(0)} words have the head 0"
            notes.fault("no tree", sentence.id, f"{rule}; a tree has one root, and every other word has a head")
            continue
        if (name := label_of(block, str(label), sentence.id, notes)) is not None:
            labels = tuple(name if head == 0 else None for head in sentence.heads)
            yield LabelledTree(sentence.words, head_nodes(sentence.heads), labels, id=sentence.id)


def label_of(block: Block, name: str, place: str, notes: Notes) -> str | None:
    found = block.comments.get(name)
    if not found:
        notes.fault(
            "no label", place, f"no comment '# {name} = ...' before this sentence; there are: {listed(list(block.comments)) or 'none'}"
        )
    return found or None


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
