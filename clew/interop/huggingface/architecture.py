"""Describe one architecture: how its config is read and written, and how its tensors map to clew's."""

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
"""If their output layer has no bias, ours is set to 0. Other tensors that a checkpoint lacks belong to the task and
keep their initial values."""


@dataclass(frozen=True)
class Understood:
    """A checkpoint's config, converted to clew's sections."""

    model: dict[str, Any]
    task: dict[str, Any]
    vocabulary: int
    labels: Labels | None = None
    sections: dict[str, Any] = field(default_factory=dict)
    """Fields of other sections: decoding, training."""


@dataclass(frozen=True)
class TaskRead:
    """The output layer in a checkpoint's config: the section task without its name, the labels, and fields of other
    sections."""

    task: dict[str, Any]
    labels: Labels | None = None
    sections: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Head:
    """An output layer over an architecture's body. `names` are the classes of `transformers` that have it; the first is
    used for export.

    `read(checkpoint, model)` reads a config, given the body's section `model`; `entries(task)` is its weight map;
    `write(model, task, out)` returns its fields in the config of an exported run, or raises a UserError if they cannot
    express the run.
    """

    names: tuple[str, ...]
    read: Callable[[Checkpoint, dict[str, Any]], TaskRead]
    entries: Callable[[Any], list[Entry]]
    write: Callable[[Any, Any, "Outgoing"], dict[str, Any]]


@dataclass(frozen=True)
class Architecture:
    """One architecture. `heads` are its output layers in `transformers`, by clew's name of the task.

    `read(checkpoint)` returns the section of the body; `entries(model)` is the body's weight map; `write(model, out)`
    returns the body's fields in the config of an exported run; `reorder(model, tensors)` permutes the features of a run
    as the architecture needs them. With an output layer, the names of the body's tensors begin with `prefix`, and
    `outputs` is a pattern of all other names. `leftovers` are patterns of tensors that are not needed, `spare` of
    weights that a class may have without using them; `copies` maps tied tensors to their originals, and `added` are
    patterns of clew's tensors that no checkpoint has.
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
    added: tuple[str, ...] = ()

    @cached_property
    def names(self) -> dict[str, str]:
        """Clew's task for each of their classes."""
        return {name: task for task, head in self.heads.items() for name in head.names}

    def understand(self, checkpoint: Checkpoint, name: str) -> Understood:
        model, task = self.read(checkpoint), self.names[name]
        head = self.heads[task].read(checkpoint, model)
        checkpoint.config.skip("tie_word_embeddings")
        vocabulary = checkpoint.config.get("vocab_size", int)
        return Understood(model, {"name": task, **head.task}, vocabulary, head.labels, head.sections)

    def all_entries(self, model: Any, task: Any) -> list[Entry]:
        """Return the weight map of a run with these sections."""
        return [*self.entries(model), *self.heads[task.name].entries(task)]

    def config(self, model: Any, task: Any, out: "Outgoing") -> dict[str, Any]:
        """Return the config of a run; raise a UserError for settings that it cannot express."""
        return {**self.write(model, out), **self.heads[task.name].write(model, task, out)}


@dataclass(frozen=True)
class Outgoing:
    """The parts of a run that `write` needs besides the sections model and task."""

    name: str
    tokenizer: Tokenizer
    labels: Labels | None


def check_supported(section: Section, architecture: str, **supported: Any) -> None:
    """Raise a UserError if a run has settings for which an architecture has no field."""
    for name, values in supported.items():
        value = getattr(section, name)
        if value not in (values if isinstance(values, tuple) else (values,)):
            what = getattr(section, "family", None) or getattr(section, "name", "")
            raise UserError(
                f"{architecture} cannot express {name}={value!r} of this {what}; it supports {values!r} only"
            )
