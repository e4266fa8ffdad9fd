"""Files of bracketed trees: treebanks, and trees with a class at every node."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from clew.core.tree_nodes import phrase_nodes
from clew.core.trees import Tree
from clew.data.described import Columns, Field, Row, Shown, Use, text_field
from clew.data.examples import LabelledTree, Parsed
from clew.data.format import Format
from clew.data.lines import open_decoded
from clew.data.notes import Notes
from clew.data.records import Column
from clew.data.syntax.trees import cleaned, format_tree, parse_lines, placed_trees

TREE = re.compile(r"\s*\(\s*[^\s()]*\s*\(")


def is_bracketed(lines: Sequence[str]) -> bool:
    """Whether a file begins with an opening bracket, an optional label, and another bracket."""
    return bool(TREE.match("\n".join(lines)[:1000]))


def labelled_nodes(examples: Iterable[Parsed], notes: Notes) -> Iterator[LabelledTree]:
    """Yield trees whose node labels are classes. A tree without a label at its root is a fault."""
    for tree, place in examples:
        if tree.label == "":
            notes.fault(
                "node without a label",
                place,
                "the root has no label; every node of a labelled tree needs one, such as (3 (2 It) ...)",
            )
            continue
        nodes, shape = phrase_nodes(tree)
        yield LabelledTree(tuple(tree.words), shape, tuple(node.label for node in nodes), id=place)


def labelled_brackets(path: Path, label: Column | None, notes: Notes) -> Iterator[LabelledTree]:
    """Read trees with a class at every node."""
    return labelled_nodes((Parsed(tree, place) for tree, place in placed_trees(path)), notes)


def tree_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    """Yield trees as parsers learn them: without traces and function tags, under one root. If words and phrases of the
    first tree share labels, the labels are classes and the trees stay unchanged."""
    has_classes: bool | None = None
    with open_decoded(path) as lines:
        for number, (tree, _) in enumerate(parse_lines(lines, str(path)), start=1):
            place = f"{path}:tree {number}"
            if has_classes is None:
                has_classes = not set(tree.tags).isdisjoint(phrases_of(tree))
            clean = tree if has_classes else cleaned(tree)
            if clean is None:
                notes.skip("tree of traces only", place)
                continue
            words, tags, phrases = clean.words, clean.tags, phrases_of(clean)
            fields = {"words": Field(" ".join(words), len(words), ()), "tags": Field(" ".join(tags), len(tags), tags)}
            if has_classes:
                fields = {"words": fields["words"], "label": text_field(clean.label)}
            yield (
                place,
                {
                    **fields,
                    "tree": Field(format_tree(clean), len(words), [*tags, *phrases] if has_classes else phrases[1:]),
                },
            )


def phrases_of(tree: Tree) -> list[str]:
    return [node.label for node in tree.nodes() if not node.is_leaf]


def tree_use(columns: Columns, shown: Shown) -> Use:
    """Suggest classification for trees with classes, and parsing for others."""
    return Use("classify-trees" if any(column.name == "label" for column in columns) else "parse", {})


BRACKETS = Format(
    about="bracketed trees",
    rows=tree_rows,
    extensions=(".mrg", ".ptb", ".tree", ".trees"),
    fits=is_bracketed,
    labelled_trees=labelled_brackets,
    use=tree_use,
)
