"""Bracketed trees in the Penn Treebank's style, from text to `Tree` and back, and the cleaning that parsers are trained
and scored on.

    ( (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)) )        a tree may stand on one line or several
    (3 (2 It) (4 (3 (2 is) (4 lovely)) (2 .)))              any label will do: here the sentiment of every phrase

A bracket holds other brackets, or one word after its tag. Only the outermost may lack a label; it is kept as the label
"". A round bracket in a word is written -LRB- or -RRB-; in a `Tree` it is the bracket itself. So are the square and
curly ones when read.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clew.core.errors import UserError
from clew.core.trees import Tree, bracketed, fold, walk
from clew.data.lines import near, open_decoded

SUFFIXES = (".mrg", ".tree", ".trees", ".ptb")
"""What is read in a folder."""

TRACE = "-NONE-"
ROOTS = ("", "TOP", "ROOT", "S1")
"""Labels that stand above the sentence and say nothing about it."""

READ_AS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
WRITTEN_AS = str.maketrans({"(": "-LRB-", ")": "-RRB-"})

# White space is ASCII's alone: some treebanks have words with a no-break space inside.
TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
SPACE = re.compile(r"\s", re.ASCII)
WORD = re.compile(r"\S+", re.ASCII)
ESCAPE = re.compile("|".join(READ_AS))


def read_trees(paths: Path | str | Sequence[Path | str]) -> list[Tree]:
    """The trees of a file, of a folder's treebank files (`SUFFIXES`) in the order of their names, or of several of
    these."""
    if isinstance(paths, (Path, str)):
        paths = [paths]
    return [tree for path in paths for file in tree_files(Path(path).expanduser()) for tree in trees_in(file)]


def parse_trees(text: str, name: str = "text") -> list[Tree]:
    """The trees of a text; `name` is what a mistake in it is told with."""
    return some((tree for tree, _ in parse_lines(io.StringIO(text.removeprefix("\ufeff"), newline=None), name)), name)


def parse_tree(text: str) -> Tree:
    """The one tree of a text."""
    trees = parse_trees(text)
    if len(trees) > 1:
        raise UserError(f"expected 1 tree, found {len(trees)}; parse_trees gives them all")
    return trees[0]


def tree_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"no such file: {path}; {near(path)}")
    found = sorted(
        file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file() and not file.name.startswith(".")
    )
    if not found:
        raise UserError(
            f"{path}: no {', '.join(SUFFIXES)} file in this folder or below; name the files that hold the trees"
        )
    return found


def trees_in(path: Path) -> list[Tree]:
    with open_decoded(path) as lines:
        return some((tree for tree, _ in parse_lines(lines, str(path))), str(path))


def placed_trees(paths: Path | str) -> Iterator[tuple[Tree, str]]:
    """The trees of a file or a folder, each with its file and the line where it begins."""
    for file in tree_files(Path(paths).expanduser()):
        with open_decoded(file) as lines:
            yield from ((tree, f"{file}:{line}") for tree, line in parse_lines(lines, str(file)))


def some(trees: Iterator[Tree], name: str) -> list[Tree]:
    found = list(trees)
    if not found:
        raise UserError(
            f"{name}: there is no tree in it; give bracketed trees, such as (S (NP (PRP it)) (VP (VBZ rains)))"
        )
    return found


@dataclass
class Bracket:
    """One that is open: where it began and what it holds so far."""

    line: int
    label: str | None = None
    children: list[Tree] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def parse_lines(lines: Iterable[str], name: str) -> Iterator[tuple[Tree, int]]:
    """Each tree as its last bracket closes, and the line in which its first opened."""
    opened: list[Bracket] = []
    for line, text in enumerate(lines, start=1):
        place = f"{name}:{line}"
        for token in TOKEN.findall(text):
            if token == "(":
                if opened and opened[-1].label is None:
                    name_root(opened, place)
                opened.append(Bracket(line))
            elif token == ")":
                if not opened:
                    raise UserError(
                        f"{place}: a closing bracket has no opening one before it; take it away, or add the opening one"
                    )
                begun = opened[-1].line
                tree = closed(opened.pop(), name)
                if opened:
                    opened[-1].children.append(tree)
                else:
                    yield tree, begun
            elif not opened:
                raise UserError(
                    f"{place}: '{token}' stands outside all brackets; a tree is one bracket, such as (S (NP (PRP it)))"
                )
            elif opened[-1].label is None:
                opened[-1].label = token
            else:
                opened[-1].words.append(token)
    if opened:
        missing = f"{len(opened)} closing brackets are" if len(opened) > 1 else "1 closing bracket is"
        raise UserError(
            f"{name}:{opened[0].line}: the tree that begins here is not closed; {missing} missing before the end"
        )


def name_root(opened: list[Bracket], place: str) -> None:
    """A bracket begins with another bracket: it has no label, as only the outermost may."""
    if len(opened) > 1:
        raise UserError(
            f"{place}: a bracket inside another has no label; only the outermost may have none. Give it one, or close"
            f" the tree that begins in line {opened[0].line}"
        )
    opened[-1].label = ""


def closed(bracket: Bracket, name: str) -> Tree:
    place, label, words = f"{name}:{bracket.line}", bracket.label, bracket.words
    remedy = "each word needs a bracket of its own with its tag, such as (NN dog)"
    if label is None:
        raise UserError(f"{place}: the bracket () is empty; it needs a label, and brackets or one word after it")
    if not words and not bracket.children:
        raise UserError(f"{place}: the bracket ({label}) is empty; it needs brackets or one word after its label")
    if words and bracket.children:
        raise UserError(f"{place}: the word '{words[0]}' stands beside brackets inside ({label} ...); {remedy}")
    if len(words) > 1:
        raise UserError(
            f"{place}: {len(words)} words, '{words[0]}' and '{words[1]}', stand in one bracket ({label} ...); {remedy}"
        )
    return Tree(label, bracket.children, unescape(words[0]) if words else None)


def unescape(word: str) -> str:
    """-LRB- as the bracket that it stands for."""
    return ESCAPE.sub(lambda found: READ_AS[found[0]], word) if "-" in word else word


def tree_words(text: str) -> list[str]:
    """The words of a sentence with white space between them; -LRB- is read as in a tree."""
    return [unescape(word) for word in WORD.findall(text)]


def escape(word: str) -> str:
    """A word as it may stand between brackets."""
    if not word or SPACE.search(word):
        raise UserError(
            f"the word {word!r} cannot be written in a bracketed tree, where words are not empty and have no white"
            " space"
        )
    return word.translate(WRITTEN_AS)


def format_tree(tree: Tree, indent: int | None = None) -> str:
    """A tree on one line; with `indent`, every phrase that holds phrases has its children on lines of their own, so
    much further in."""
    check_labels(tree)
    if indent is None:
        return bracketed(tree, escape)
    parts: list[str] = []
    shares_line = [True]
    for node, opens in walk(tree):
        if not opens:
            parts.append(")")
            shares_line.pop()
            continue
        if parts:
            parts.append(" " if shares_line[-1] else "\n" + " " * indent * (len(shares_line) - 1))
        if node.is_leaf:
            parts.append(bracketed(node, escape))
        else:
            parts.append(f"({node.label}")
            shares_line.append(all(child.is_leaf for child in node.children))
    return "".join(parts)


def write_trees(trees: Iterable[Tree], path: Path | str) -> None:
    """One tree a line."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{format_tree(tree)}\n" for tree in trees)


def check_labels(tree: Tree) -> None:
    for node in tree.nodes():
        if node.label == "" and (node is not tree or node.is_leaf):
            raise UserError("a node inside the tree has no label, and only the root may have none; give it one")
        if len(TOKEN.findall(node.label)) > 1 or SPACE.search(node.label) or node.label in ("(", ")"):
            raise UserError(
                f"the label {node.label!r} cannot be written in a bracketed tree; take brackets and white space out"
                " of it"
            )


def without_traces(tree: Tree) -> Tree | None:
    """The tree without the leaves tagged -NONE- and the phrases that they leave empty; None where nothing is left."""

    def kept(node: Tree, below: list[Tree | None]) -> Tree | None:
        if node.is_leaf:
            return None if node.label == TRACE else node
        children = [child for child in below if child is not None]
        return Tree(node.label, children) if children else None

    return fold(tree, kept)


def without_functions(tree: Tree) -> Tree:
    """The tree with NP for NP-SBJ-1 and NP=2. Tags, and labels that begin with the hyphen, are left alone."""
    return fold(tree, lambda node, below: node if node.is_leaf else Tree(category(node.label), below))


def category(label: str) -> str:
    """A label up to its first - or =, but for one at the very beginning."""
    return label[:1] + re.split("[-=]", label[1:], maxsplit=1)[0]


def with_root(tree: Tree, label: str = "TOP") -> Tree:
    """The tree under a root of that label, which replaces the one of `ROOTS` that it may have."""
    return Tree(label, tree.children if tree.label in ROOTS and not tree.is_leaf else [tree])


def without_root(tree: Tree) -> Tree:
    """What stands under the root, where that is one phrase; else the tree as it is."""
    while tree.label in ROOTS and len(tree.children) == 1 and not tree.children[0].is_leaf:
        tree = tree.children[0]
    return tree


def cleaned(tree: Tree, root: str | None = "TOP") -> Tree | None:
    """The tree as parsers learn it: no traces, no function tags, under `root` (None: no root where it can be spared);
    None if it was all traces."""
    bare = without_traces(tree)
    if bare is None:
        return None
    bare = without_functions(bare)
    return without_root(bare) if root is None else with_root(bare, root)
