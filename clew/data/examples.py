"""The examples that tasks learn from: plain tuples of strings, each with its origin. Knows no file.

`key` decides whether two examples are the same when a set is split: it is what a model reads, not what it answers.
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
    """A text, or two texts together, with a label; with several labels, or none, if they do not exclude each other."""

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
    """An example with an answer."""

    @property
    def label(self) -> str: ...

    @property
    def id(self) -> str: ...


def number_of(example: Answered) -> float:
    """Return the label of an example as a number."""
    try:
        number = float(example.label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{example.id}: '{example.label}' is not a number, as task.labels=number requires")
    return number


class Pair(NamedTuple):
    """A text and what it is turned into: a translation, a summary, an answer. For a model with several kinds of output,
    `into` names the kind: the target's language."""

    source: str
    target: str
    id: str = ""
    into: str = ""

    @property
    def key(self) -> str:
        return self.source


class Answer(NamedTuple):
    """An answer in its passage: its text, and the index of its first character."""

    text: str
    start: int


class Question(NamedTuple):
    """A question on a passage, and its correct answers; none if the passage does not answer it. Questions on the same
    passage stay in one part."""

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
    """The turns of a conversation, which begins at `line` of a file."""

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
"""For each word, its heads in an enhanced graph, counted from 1 (0: the root), and its relation to each."""


NamedEdges = tuple[tuple[int, int, str], ...]
"""Edges of a graph: (source, target, type), nodes counted from 0."""


class Sentence(NamedTuple):
    """Words, and for each a tag, or its head, counted from 1 (0: the root), and its relation to the head. For a graph
    that is not a sentence, the words are the contents of its nodes, and `edges` connect them."""

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
    """A graph with a label; with several, or none, if labels do not exclude each other."""

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
    """A sentence's tree, its nodes in the order of `core.tree_nodes`, words first. `labels` has each node's class, None
    if it has none; `phrases` has the names of phrases (NP), if the tree has them as well."""

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
    """A picture, opened or drawn only when it is read."""

    @property
    def key(self) -> str:
        """A string that identifies the picture."""
        ...

    def pixels(self, mode: Literal["rgb", "grey"] = "rgb") -> np.ndarray:
        """Bytes (height, width, channels): three of RGB, or one of grey."""
        ...


class Captioned(NamedTuple):
    """A picture with its captions."""

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
    """A picture with the boxes (left, top, right, bottom) of its objects, in pixels; right and bottom are exclusive. It
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
    """A picture and the sentences of a paragraph about it. `phrases`, if there are any, describe each of its boxes, as
    a region captioner does."""

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
    """A picture or a sound with a label; with several, or none, if labels do not exclude each other. A sound is as in
    `Transcribed`."""

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
    """The labels of a picture's pixels, read or drawn only when needed."""

    def levels(self) -> np.ndarray:
        """A number for each pixel (height, width), from 0 on."""
        ...


class LabelledPixels(NamedTuple):
    """A picture with a number for each of its pixels. `names` are the names of the numbers; without them, each number
    is its own name. Pixels with the number `ignored` have no label."""

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
    """A sound and its transcript. The sound is the path of a file, or anything with `sound()`; it is read when it is
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
