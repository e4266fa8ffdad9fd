"""Programs that a task offers for export to another runtime (ONNX, torch.export), as records. Knows no runtime and no
run.

A task returns them from a method `programs()`, or raises an error there with the reason why it cannot be exported. A
task without the method is exported as its logits and its body's levels, if these exist.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from clew.layers.context import Pieces


class Traced(NamedTuple):
    """The inputs of a program: one or two texts, and which of the words are real (batch, words)."""

    texts: tuple[Pieces, ...]
    words: Tensor


@dataclass(frozen=True)
class ReadingProgram:
    """A program that reads whole texts. `call(inputs)` returns one tensor for each name in `outputs`."""

    name: str
    outputs: Sequence[str]
    call: Callable[[Traced], Sequence[Tensor]]
    numbered: str = ""
    """The prefix of the output names, before a number, if the number of outputs depends on the body."""
    texts: int = 1
    words: bool = False
    """Whether the program also takes the places of each word's pieces."""
    usage: str = ""
    """Python code for the model card that calls the program by `run(name, tensors)` and prints the outputs. It may
    use `tensors` (one sentence), `words` (the words of a line), `tokenizer` and `about` (export.json). TEXT is
    replaced by a text that the tokenizer knows, QUESTION by one of its words."""
    alone: bool = False
    """Whether `usage` creates its own `tensors`."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More entries for export.json: ids and names."""


@dataclass(frozen=True)
class SteppingProgram:
    """A program that generates: one call of the task's body from a state, and the `log_probs` of its output; with a
    `source`, a second program that encodes it. `facts` has `before`, the ids that a text begins with; with a source
    it has `source_before`, `source_after`, `start` and `end`, and `languages` if the source names the target
    language."""

    source: bool
    facts: Mapping[str, Any]


LEVELS = """\
levels = run("levels", tensors)
print({name: vectors.shape for name, vectors in levels.items()})  # (batch, length, dim), the embedding first
"""


def levels(body: Any) -> ReadingProgram:
    """Return the program for the vectors (batch, length, dim) of every level, the embedding's first."""
    return ReadingProgram(
        "levels",
        (),
        lambda inputs: body.levels(inputs.texts[0].inputs, inputs.texts[0].mask),
        numbered="level",
        usage=LEVELS,
    )
