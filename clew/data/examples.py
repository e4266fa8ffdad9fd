"""What a task is given to learn from: plain tuples of strings, each with where it came from. Knows no file.

`key` is what decides whether two examples are the same one again, when a set is split: what a model reads, not what it
answers.
"""

import math
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from clew.core.errors import UserError
from clew.core.tree_nodes import NONE, Nodes
from clew.core.trees import Tree


class Example(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def id(self) -> str: ...


class Text(NamedTuple):
    text: str
    id: str = ""  # file:line

    @property
    def key(self) -> str:
        return self.text


class Labelled(NamedTuple):
    """A text, or two texts together, with a label; with several, or none, where labels do not exclude each other."""

    text: str
    labels: tuple[str, ...] = ()
    second: str | None = None
    id: str = ""

    @property
    def key(self) -> str:
        return self.text

    @property
    def label(self) -> str:
        """All labels in one string."""
        return "|".join(self.labels)


class Answered(Protocol):
    """An example, as far as its answer is concerned."""

    @property
    def label(self) -> str: ...

    @property
    def id(self) -> str: ...


def number_of(example: Answered) -> float:
    """The number that an example has for a label."""
    try:
        number = float(example.label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{example.id}: '{example.label}' is no number, and task.labels=number asks for one")
    return number


class Pair(NamedTuple):
    """A text and what becomes of it: a translation, a summary, an answer. `into` says what is asked for, where a model
    can do several: the target's language."""

    source: str
    target: str
    id: str = ""
    into: str = ""

    @property
    def key(self) -> str:
        return self.source


class Answer(NamedTuple):
    """An answer in its passage: its text, and the character at which it begins."""

    text: str
    start: int


class Question(NamedTuple):
    """A question on a passage, and the answers that are right; none where the passage has none. Questions on one
    passage stay together."""

    question: str
    passage: str
    answers: tuple[Answer, ...] = ()
    id: str = ""

    @property
    def key(self) -> str:
        return self.passage

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(answer.text for answer in self.answers)


class Dialogue(NamedTuple):
    """What people said in turn, from a line of a file on."""

    turns: tuple[str, ...]
    file: str = ""
    line: int = 1

    @property
    def key(self) -> str:
        return " ".join(self.turns)

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"


Deps = tuple[tuple[tuple[int, str], ...], ...]
"""Of each word its heads in an enhanced graph, counted from 1 (0: the root), and how it relates to each."""


NamedEdges = tuple[tuple[int, int, str], ...]
"""Edges of a graph: (source, target, type), nodes counted from 0."""


class Sentence(NamedTuple):
    """Words, and for each a tag, or the number of its head counted from 1 (0: the root) and how it relates to it. Of a
    graph that is no sentence the words are what stands at its nodes, and `edges` lead between these."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    heads: tuple[int, ...] | None = None
    relations: tuple[str, ...] | None = None
    id: str = ""
    deps: Deps | None = None
    edges: NamedEdges | None = None

    @property
    def key(self) -> str:
        return " ".join(self.words)


class LabelledGraph(NamedTuple):
    """A graph with a label; with several, or none, where labels do not exclude each other."""

    graph: Sentence
    labels: tuple[str, ...] = ()
    id: str = ""

    @property
    def key(self) -> str:
        edges = " ".join(f"{source}-{target}:{type}" for source, target, type in self.graph.edges or ())
        return f"{self.graph.key} {edges}"

    @property
    def label(self) -> str:
        """All labels in one string."""
        return "|".join(self.labels)


class Parsed(NamedTuple):
    """A sentence with its tree."""

    tree: Tree
    id: str = ""

    @property
    def key(self) -> str:
        return " ".join(self.tree.words)


class LabelledTree(NamedTuple):
    """A sentence's tree, node by node in the order of `core.tree_nodes`, words first: the words, each node's class,
    None where it has none, and where phrases have names besides (NP), those."""

    words: tuple[str, ...]
    nodes: Nodes
    labels: tuple[str | None, ...]
    phrases: tuple[str, ...] = ()
    id: str = ""

    @property
    def key(self) -> str:
        return " ".join(self.words)

    @property
    def root(self) -> int:
        return self.nodes.parents.index(NONE)

    @property
    def label(self) -> str:
        """The whole sentence's class."""
        return self.labels[self.root] or ""

    @property
    def as_text(self) -> Labelled:
        """The words without their tree."""
        return Labelled(self.key, (self.label,), id=self.id)


class Picture(Protocol):
    """A picture, which is opened or drawn when it is read and not before."""

    @property
    def key(self) -> str:
        """What tells it from other pictures."""
        ...

    def pixels(self, mode: Literal["rgb", "grey"] = "rgb") -> np.ndarray:
        """Bytes (height, width, channels): three of RGB, or one of grey."""
        ...


class Captioned(NamedTuple):
    """A picture and what was said of it."""

    picture: Picture
    captions: tuple[str, ...]
    id: str = ""

    @property
    def key(self) -> str:
        return self.picture.key

    @property
    def input(self) -> Picture:
        return self.picture

    @property
    def target(self) -> str:
        """The first caption."""
        return self.captions[0]


class Regions(NamedTuple):
    """A picture with the boxes (left, top, right, bottom) of its things, in pixels without the last column and row. It
    is a `Picture`."""

    picture: Picture
    boxes: tuple[tuple[int, int, int, int], ...]

    def __str__(self) -> str:
        return self.key

    @property
    def key(self) -> str:
        return self.picture.key

    def pixels(self, mode: Literal["rgb", "grey"] = "rgb") -> np.ndarray:
        return self.picture.pixels(mode)

    def crops(self) -> list["Crop"]:
        return [Crop(self.picture, box) for box in self.boxes]


class Crop(NamedTuple):
    """The part of a picture inside a box. It is a `Picture`."""

    picture: Picture
    box: tuple[int, int, int, int]

    @property
    def key(self) -> str:
        return f"{self.picture.key} {self.box}"

    def pixels(self, mode: Literal["rgb", "grey"] = "rgb") -> np.ndarray:
        left, top, right, bottom = self.box
        return np.ascontiguousarray(self.picture.pixels(mode)[top:bottom, left:right])


class Described(NamedTuple):
    """A picture and the sentences of a paragraph on it; `phrases` are what a captioner of regions says of each box,
    where there are any."""

    picture: Picture
    sentences: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    id: str = ""

    @property
    def key(self) -> str:
        return self.picture.key

    @property
    def input(self) -> Picture:
        return self.picture

    @property
    def target(self) -> str:
        """The paragraph."""
        return " ".join(self.sentences)


class LabelledInput(NamedTuple):
    """A picture or a sound with a label; with several, or none, where labels do not exclude each other. A sound is as
    in `Transcribed`."""

    input: Any
    labels: tuple[str, ...] = ()
    id: str = ""

    @property
    def key(self) -> str:
        return str(getattr(self.input, "key", self.input))

    @property
    def label(self) -> str:
        """All labels in one string."""
        return "|".join(self.labels)


class PixelLabels(Protocol):
    """What a picture's pixels are, read or drawn when it is needed and not before."""

    def levels(self) -> np.ndarray:
        """A number for each pixel (height, width), from 0 on."""
        ...


class LabelledPixels(NamedTuple):
    """A picture with a number for each of its pixels. `names` has what the numbers are called, which are their own
    names where there are none; pixels of the number `ignored` have no label."""

    picture: Picture
    pixels: PixelLabels
    names: tuple[str, ...] = ()
    ignored: int | None = None
    id: str = ""

    @property
    def key(self) -> str:
        return self.picture.key

    @property
    def input(self) -> Picture:
        return self.picture


class Transcribed(NamedTuple):
    """A sound and what is said in it. The sound is a file's path, or anything with `sound()`, read when it is
    needed."""

    input: Any
    text: str
    id: str = ""

    @property
    def key(self) -> str:
        return str(self.input)

    @property
    def target(self) -> str:
        return self.text
