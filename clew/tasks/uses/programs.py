"""What a task gives to be written for another runtime (ONNX, torch.export): its programs, as records. Knows no runtime
and no run.

A task offers them by a method `programs()`. One that no program can do refuses there, and says why. A task that has no
such method is given its logits and the levels of its body, where these can be found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from clew.layers.context import Pieces


class Traced(NamedTuple):
    """What a program reads: a text, or two, and which of its words are real (batch, words)."""

    texts: tuple[Pieces, ...]
    words: Tensor


@dataclass(frozen=True)
class ReadingProgram:
    """A program that reads texts whole. `call(given)` gives a tensor for each name of `outputs`."""

    name: str
    outputs: Sequence[str]
    call: Callable[[Traced], Sequence[Tensor]]
    numbered: str = ""
    """Where there are as many outputs as the body says: what their names begin with; a number follows."""
    texts: int = 1
    words: bool = False
    """Whether it is told where the pieces of each word are."""
    usage: str = ""
    """Python for the card that calls it by `run(name, tensors)` and prints what comes out. `tensors` is a sentence; in
    a line, `words` are its words, `tokenizer` reads it, `about` is export.json. TEXT stands for a text that the
    tokenizer knows, QUESTION for a word of it."""
    alone: bool = False
    """Whether `usage` makes its `tensors` itself."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else export.json says: ids, names."""


@dataclass(frozen=True)
class SteppingProgram:
    """A program that writes: one call of the task's body from a state, and `log_probs` of what comes out; where there
    is a `source`, one more that reads it. `facts` has `before`, the ids that a text begins with; of a source
    `source_before`, `source_after`, `start` and `end`, and `languages` where it names the one that it goes into."""

    source: bool
    facts: Mapping[str, Any]


LEVELS = """\
found = run("levels", tensors)
print({name: vectors.shape for name, vectors in found.items()})  # (batch, length, dim), the embedding first
"""


def levels(body: Any) -> ReadingProgram:
    """The vectors (batch, length, dim) of every level, the embedding's first."""
    return ReadingProgram(
        "levels",
        (),
        lambda given: body.levels(given.texts[0].inputs, given.texts[0].mask),
        numbered="level",
        usage=LEVELS,
    )
