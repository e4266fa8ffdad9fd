"""What a file on one architecture says: how its config is read and written, and which of its tensors are which of clew's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
class Architecture:
    """`names` are the classes of `transformers` and the task that clew has for each.

    `read(checkpoint, name)` understands a config; `entries(model, task)` are the tensors of a run with these sections; `write(model, task,
    out)` is the config for a run that fits; `reorder(model, tensors)` is the same run with its features as the architecture has them.
    `prefix` is what the body's tensors begin with under an output layer, `heads` a pattern of those that are not the body's. `leftovers`
    are patterns of tensors that are not needed, `spare` of weights that a class may have and not use; `copies` are tensors that say again
    what others say, and `made` patterns of tensors of clew's that a checkpoint has not.
    """

    names: Mapping[str, str]
    prefix: str
    read: Callable[[Checkpoint, str], Understood]
    entries: Callable[[Any, Any], list[Entry]]
    write: Callable[[Any, Any, "Outgoing"], dict[str, Any]]
    reorder: Callable[[Any, dict[str, Tensor]], dict[str, Tensor]] | None = None
    heads: str = ""
    leftovers: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    made: tuple[str, ...] = ()


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
