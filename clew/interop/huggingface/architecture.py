"""What a file on one architecture says: how its config is read and written, and which of its tensors are which of clew's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from clew.core.config import Section
from clew.core.errors import UserError
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.weight_maps import Entry
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

BIAS = "output.bias"
"""Where an output layer of theirs has none, ours is 0. What else they have not is how a task answers, and stays as it is built."""


@dataclass(frozen=True)
class Understood:
    """A checkpoint's config in clew's words."""

    model: dict[str, Any]
    task: dict[str, Any]
    vocabulary: int
    labels: Labels | None = None
    sections: dict[str, Any] = field(default_factory=dict)
    """Of other sections: decoding, training."""


@dataclass(frozen=True)
class TaskRead:
    """What a checkpoint's config says of its output layer: the section task without its name, labels, and fields of other sections."""

    task: dict[str, Any]
    labels: Labels | None = None
    sections: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Head:
    """An output layer over an architecture's body. `names` are the classes of `transformers` that have it; the first is written.

    `read(checkpoint, model)` understands a config, where `model` is the section of the body; `entries(task)` are its tensors; `write(model,
    task, out)` are its fields in the config of a run that fits.
    """

    names: tuple[str, ...]
    read: Callable[[Checkpoint, dict[str, Any]], TaskRead]
    entries: Callable[[Any], list[Entry]]
    write: Callable[[Any, Any, "Outgoing"], dict[str, Any]]


@dataclass(frozen=True)
class Architecture:
    """`heads` are the output layers that `transformers` has over a body, by clew's name of the task.

    `read(checkpoint)` understands what a config says of the body; `entries(model)` are its tensors; `write(model, out)` are its fields in
    the config of a run that fits; `reorder(model, tensors)` is the same run with its features as the architecture has them. `prefix` is
    what the body's tensors begin with under an output layer, `outputs` a pattern of those that are not the body's. `leftovers` are
    patterns of tensors that are not needed, `spare` of weights that a class may have and not use; `copies` are tensors that say again what
    others say, and `made` patterns of tensors of clew's that a checkpoint has not.
    """

    heads: Mapping[str, Head]
    prefix: str
    read: Callable[[Checkpoint], dict[str, Any]]
    entries: Callable[[Any], list[Entry]]
    write: Callable[[Any, "Outgoing"], dict[str, Any]]
    reorder: Callable[[Any, dict[str, Tensor]], dict[str, Tensor]] | None = None
    outputs: str = ""
    leftovers: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    made: tuple[str, ...] = ()

    @cached_property
    def names(self) -> dict[str, str]:
        """The task of each of their classes."""
        return {name: task for task, head in self.heads.items() for name in head.names}

    def understand(self, checkpoint: Checkpoint, name: str) -> Understood:
        model, task = self.read(checkpoint), self.names[name]
        found = self.heads[task].read(checkpoint, model)
        checkpoint.config.skip("tie_word_embeddings")
        vocabulary = checkpoint.config.get("vocab_size", int)
        return Understood(model, {"name": task, **found.task}, vocabulary, found.labels, found.sections)

    def all_entries(self, model: Any, task: Any) -> list[Entry]:
        """The tensors of a run with these sections."""
        return [*self.entries(model), *self.heads[task.name].entries(task)]

    def config(self, model: Any, task: Any, out: "Outgoing") -> dict[str, Any]:
        """The config for a run that fits; what has no field is refused."""
        return {**self.write(model, out), **self.heads[task.name].write(model, task, out)}


@dataclass(frozen=True)
class Outgoing:
    """What an architecture's `write` is told of a run besides its model and task."""

    name: str
    tokenizer: Tokenizer
    labels: Labels | None


def only(section: Section, architecture: str, **wanted: Any) -> None:
    """Refuses a run whose settings an architecture has no field for."""
    for name, values in wanted.items():
        value = getattr(section, name)
        if value not in (values if isinstance(values, tuple) else (values,)):
            what = getattr(section, "family", None) or getattr(section, "name", "")
            raise UserError(f"{architecture} cannot express {name}={value!r} of this {what}; it has {values!r} alone")
