"""The attention heads of a run: how they are called, and a context in which some of them say nothing.

A head is called LAYER.HEAD, both from 1: `2.5` is the fifth head of the second layer that attends. In a model that reads and writes these
are the encoder's; `decoder.2.5` is one of the decoder's own, `cross.2.5` one that looks at the source.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.inspection.recording import intervene, plain_module
from clew.layers.attention import Attention, CrossAttention, SelfAttention
from clew.layers.hard_attention import HardAttention

OWN, DECODER, CROSS = "", "decoder.", "cross."
"""How the name of a head begins: of the encoder, or of the only body; of a decoder; of what looks from the decoder at the source."""


class AttendingLayer(NamedTuple):
    """A layer that attends: `layer` has `num_heads` heads, whose weights are seen at the path `weights`."""

    kind: str
    number: int
    path: str
    layer: nn.Module
    attention: Attention
    num_heads: int

    @property
    def name(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def heads(self) -> list[str]:
        return [f"{self.name}.{head}" for head in range(1, self.num_heads + 1)]

    @property
    def weights(self) -> str:
        """The path of the tap that shows the weights (batch, heads, query, key); of hard attention, where it looked."""
        return f"{self.path}.{'places' if isinstance(self.attention, HardAttention) else 'weights'}"


def attending_layers(run: Any) -> list[AttendingLayer]:
    """Every layer that attends, from the lowest; those of a body that only the embedding reads are no part of it."""
    task = plain_module(run)
    owners: dict[Attention, nn.Module] = {
        part.attention: part for part in task.modules() if isinstance(part, (SelfAttention, CrossAttention))
    }
    found: list[AttendingLayer] = []
    numbers = dict.fromkeys((OWN, DECODER, CROSS), 0)
    for path, part in task.named_modules():
        if not isinstance(part, Attention) or "embedding" in path.split("."):
            continue
        layer = owners.get(part, part)
        inside = path.split(".")
        kind = OWN if "decoder" not in inside else DECODER if isinstance(layer, SelfAttention) else CROSS
        numbers[kind] += 1
        found.append(AttendingLayer(kind, numbers[kind], path, layer, part, getattr(layer, "num_heads", 1)))
    return found


def head_names(run: Any) -> list[str]:
    return [name for layer in attending_layers(run) for name in layer.heads]


def why_headless(run: Any) -> str | None:
    """A sentence where a run has no attention, else None: what `fits` of an instrument for heads says."""
    if attending_layers(run):
        return None
    return f"{getattr(run, 'folder', 'the model')} has no attention, and so no heads"


@contextmanager
def heads_off(run: Any, names: Iterable[str]) -> Iterator[None]:
    """Within this context the heads of these names contribute nothing: each of their weights is 0, and so is what they hand on.

    with heads_off(run, ["2.5", "cross.1.1"]):
        run.score("to be or not to be")
    """
    off = grouped(run, names)
    with intervene(run, {layer.weights: silencing(heads) for layer, heads in off if heads}):
        yield


def grouped(run: Any, names: Iterable[str]) -> list[tuple[AttendingLayer, list[int]]]:
    """Every layer that attends with the heads, counted from 0, that the names are of. A name that is no head's is refused."""
    names = [names] if isinstance(names, str) else list(names)
    layers = attending_layers(run)
    known = [name for layer in layers for name in layer.heads]
    for name in names:
        if reason := why_headless(run):
            raise UserError(f"{reason}; there is no head {name!r} to switch off")
        if name not in known:
            raise unknown("head", name, known)
    return [(layer, [place for place, head in enumerate(layer.heads) if head in names]) for layer in layers]


def silencing(heads: list[int]) -> Callable[[Tensor], Tensor]:
    def silence(weights: Tensor) -> Tensor:
        """Weights (batch, heads, query, key)."""
        keep = torch.ones(weights.shape[1], dtype=torch.bool, device=weights.device)
        keep[heads] = False
        return torch.where(keep[:, None, None], weights, weights.new_zeros(()))

    return silence
