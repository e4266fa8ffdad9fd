"""Bracketed trees in the Penn Treebank's style: parse and format `Tree`s, and clean them for training and scoring
parsers.

    ( (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)) )        a tree may span one line or several
    (3 (2 It) (4 (3 (2 is) (4 lovely)) (2 .)))              any label is allowed: here the sentiment of every phrase

A bracket contains other brackets, or a tag and one word. Only the outermost may have no label; its label is then "".
A round bracket in a word is written -LRB- or -RRB-, and is read as the bracket itself. Square and curly brackets are
read in the same way (-LSB-, -LCB-), but written as they are.
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
"""Suffixes of the files that are read in a folder."""

TRACE = "-NONE-"
ROOTS = ("", "TOP", "ROOT", "S1")
"""Labels of roots above the sentence, which carry no information."""

READ_AS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
WRITTEN_AS = str.maketrans({"(": "-LRB-", ")": "-RRB-"})

# Only ASCII white space separates words: some treebanks have words with a no-break space inside.
TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
SPACE = re.compile(r"\s", re.ASCII)
WORD = re.compile(r"\S+", re.ASCII)
ESCAPE = re.compile("|".join(READ_AS))


def read_trees(paths: Path | str | Sequence[Path | str]) -> list[Tree]:
    """Read the trees of a file, of a folder's treebank files (`SUFFIXES`) in the order of their names, or of several
    files and folders."""
    if isinstance(paths, (Path, str)):
        paths = [paths]
    return [tree for path in paths for file in tree_files(Path(path).expanduser()) for tree in trees_in(file)]


def parse_trees(text: str, name: str = "text") -> list[Tree]:
    """Parse the trees of a text; error messages call it `name`."""
    return at_least_one(
        (tree for tree, _ in parse_lines(io.StringIO(text.removeprefix("\ufeff"), newline=None), name)), name
    )


def parse_tree(text: str) -> Tree:
    """Parse a text that is one tree."""
    trees = parse_trees(text)
    if len(trees) > 1:
        raise UserError(f"expected 1 tree, found {len(trees)}; parse_trees gives them all")
    return trees[0]


def tree_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"no such file: {path}; {near(path)}")
    files = sorted(
        file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file() and not file.name.startswith(".")
    )
    if not files:
        raise UserError(
            f"{path}: no {', '.join(SUFFIXES)} file in this folder or below; name the files that contain the trees"
        )
    return files


def trees_in(path: Path) -> list[Tree]:
    with open_decoded(path) as lines:
        return at_least_one((tree for tree, _ in parse_lines(lines, str(path))), str(path))


def placed_trees(paths: Path | str) -> Iterator[tuple[Tree, str]]:
    """Read the trees of a file or a folder, each with its file and first line: `dev.mrg:17`."""
    for file in tree_files(Path(paths).expanduser()):
        with open_decoded(file) as lines:
            yield from ((tree, f"{file}:{line}") for tree, line in parse_lines(lines, str(file)))


def at_least_one(trees: Iterator[Tree], name: str) -> list[Tree]:
    trees_read = list(trees)
    if not trees_read:
        raise UserError(f"{name} contains no tree; give bracketed trees, such as (S (NP (PRP it)) (VP (VBZ rains)))")
    return trees_read


@dataclass
class Bracket:
    """An open bracket: its line, and its content so far."""

    line: int
    label: str | None = None
    children: list[Tree] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def parse_lines(lines: Iterable[str], name: str) -> Iterator[tuple[Tree, int]]:
    """Yield each tree when its last bracket closes, with the line of its first bracket."""
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
                        f"{place}: a closing bracket has no opening bracket; delete it, or add the opening bracket"
                    )
                begun = opened[-1].line
                tree = closed(opened.pop(), name)
                if opened:
                    opened[-1].children.append(tree)
                else:
                    yield tree, begun
            elif not opened:
                raise UserError(
                    f"{place}: '{token}' is outside all brackets; a tree is one bracket, such as (S (NP (PRP it)))"
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
    """Give the empty label to a bracket that begins with another bracket; only the outermost may do so."""
    if len(opened) > 1:
        raise UserError(
            f"{place}: a bracket inside another has no label; only the outermost may have none. Add a label, or close"
            f" the tree that begins in line {opened[0].line}"
        )
    opened[-1].label = ""


def closed(bracket: Bracket, name: str) -> Tree:
    place, label, words = f"{name}:{bracket.line}", bracket.label, bracket.words
    remedy = "each word needs its own bracket with its tag, such as (NN dog)"
    if label is None:
        raise UserError(f"{place}: the bracket () is empty; it needs a label, and brackets or one word after it")
    if not words and not bracket.children:
        raise UserError(f"{place}: the bracket ({label}) is empty; it needs brackets or one word after its label")
    if words and bracket.children:
        raise UserError(f"{place}: the word '{words[0]}' is next to brackets inside ({label} ...); {remedy}")
    if len(words) > 1:
        raise UserError(
            f"{place}: {len(words)} words, '{words[0]}' and '{words[1]}', are in one bracket ({label} ...); {remedy}"
        )
    return Tree(label, bracket.children, unescape(words[0]) if words else None)


def unescape(word: str) -> str:
    """Replace -LRB- and the like by the bracket they stand for."""
    return ESCAPE.sub(lambda match: READ_AS[match[0]], word) if "-" in word else word


def tree_words(text: str) -> list[str]:
    """Split a sentence into words at white space; -LRB- is read as in a tree."""
    return [unescape(word) for word in WORD.findall(text)]


def escape(word: str) -> str:
    """Write a word as bracketed trees do, with -LRB- for a bracket."""
    if not word or SPACE.search(word):
        raise UserError(
            f"the word {word!r} cannot be written in a bracketed tree, where words are not empty and have no white"
            " space"
        )
    return word.translate(WRITTEN_AS)


def format_tree(tree: Tree, indent: int | None = None) -> str:
    """Write a tree on one line; with `indent`, the children of every phrase that contains phrases are on lines of their
    own, indented by that many spaces."""
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
    """Write one tree per line."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{format_tree(tree)}\n" for tree in trees)


def check_labels(tree: Tree) -> None:
    for node in tree.nodes():
        if node.label == "" and (node is not tree or node.is_leaf):
            raise UserError("a node inside the tree has no label; only the root may have none")
        if len(TOKEN.findall(node.label)) > 1 or SPACE.search(node.label) or node.label in ("(", ")"):
            raise UserError(
                f"the label {node.label!r} cannot be written in a bracketed tree; remove its brackets and white space"
            )


def without_traces(tree: Tree) -> Tree | None:
    """Remove the leaves tagged -NONE- and the phrases that become empty; None if nothing is left."""

    def kept(node: Tree, below: list[Tree | None]) -> Tree | None:
        if node.is_leaf:
            return None if node.label == TRACE else node
        children = [child for child in below if child is not None]
        return Tree(node.label, children) if children else None

    return fold(tree, kept)


def without_functions(tree: Tree) -> Tree:
    """Replace NP-SBJ-1 and NP=2 by NP. Tags, and labels that begin with a hyphen, are kept."""
    return fold(tree, lambda node, below: node if node.is_leaf else Tree(category(node.label), below))


def category(label: str) -> str:
    """Return a label up to its first - or =, not counting its first character."""
    return label[:1] + re.split("[-=]", label[1:], maxsplit=1)[0]


def with_root(tree: Tree, label: str = "TOP") -> Tree:
    """Put the tree under a root with this label, which replaces a root with a label of `ROOTS`."""
    return Tree(label, tree.children if tree.label in ROOTS and not tree.is_leaf else [tree])


def without_root(tree: Tree) -> Tree:
    """Remove a root with a label of `ROOTS` if it has one child, a phrase; else return the tree unchanged."""
    while tree.label in ROOTS and len(tree.children) == 1 and not tree.children[0].is_leaf:
        tree = tree.children[0]
    return tree


def cleaned(tree: Tree, root: str | None = "TOP") -> Tree | None:
    """Clean a tree for parsers: no traces, no function tags, under `root` (None: no root unless it is needed). None if
    all words were traces."""
    bare = without_traces(tree)
    if bare is None:
        return None
    bare = without_functions(bare)
    return without_root(bare) if root is None else with_root(bare, root)
