"""Attention weights of foreign modules during a call: `nn.MultiheadAttention`, and models of `transformers`.

`nn.MultiheadAttention` is made to compute weights per head, and its caller still gets what it requested. Models of
`transformers` compute weights only in eager attention, and return them with `output_attentions`. Both settings are
restored afterwards.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.layers.attending.heads import CROSS, DECODER, OWN

FIELDS = {"encoder_attentions": OWN, "attentions": OWN, "decoder_attentions": DECODER, "cross_attentions": CROSS}
"""Output fields of transformers models that hold attention weights, and their kinds."""


class ForeignLayer(NamedTuple):
    """An attention layer, named as `AttendingLayer` names clew's."""

    kind: str
    number: int
    num_heads: int
    num_pruned: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def heads(self) -> list[str]:
        return [f"{self.name}.{head}" for head in range(1, self.num_heads + 1)]


class ForeignWeights(NamedTuple):
    layer: ForeignLayer
    weights: Tensor  # (heads, query, key)


def shows_attention(module: nn.Module) -> bool:
    """Whether a module contains attention whose weights can be read."""
    return is_of_transformers(module) or any(isinstance(part, nn.MultiheadAttention) for part in module.modules())


def is_of_transformers(module: nn.Module) -> bool:
    """Whether a module has the interface of a transformers model."""
    return hasattr(module, "set_attn_implementation") and hasattr(
        getattr(module, "config", None), "_attn_implementation"
    )


def foreign_weights(module: nn.Module, call: Callable[..., Any]) -> list[ForeignWeights]:
    """Return the weights of every attention layer, by kind and in order of calls. `call(**arguments)` calls the module
    with extra arguments."""
    collected: list[tuple[str, Tensor]] = []
    if is_of_transformers(module):
        with eager(module):
            output = call(output_attentions=True)
        for name, kind in FIELDS.items():
            collected += [(kind, weights[0]) for weights in getattr(output, name, None) or ()]
    else:
        with weights_kept(module) as collected, slow_path():
            call()
    numbers = dict.fromkeys(FIELDS.values(), 0)
    layers = []
    for kind, weights in collected:
        numbers[kind] += 1
        layers.append(ForeignWeights(ForeignLayer(kind, numbers[kind], len(weights)), weights.detach()))
    return layers


@contextmanager
def eager(module: Any) -> Iterator[None]:
    was = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        yield
    finally:
        module.set_attn_implementation(was)


@contextmanager
def slow_path() -> Iterator[None]:
    """Make torch's encoder layers call their attention module instead of one kernel for the whole layer."""
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


@contextmanager
def weights_kept(module: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Collect the weights (heads, query, key) of every call of an `nn.MultiheadAttention` in this context, with their
    kind."""
    collected: list[tuple[str, Tensor]] = []
    requests: dict[nn.Module, tuple[bool, bool]] = {}

    def request_weights(
        part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = (
            dict(zip(("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"), args, strict=False))
            | kwargs
        )
        requests[part] = (named.get("need_weights", True), named.get("average_attn_weights", True))
        return (), {**named, "need_weights": True, "average_attn_weights": False}

    def recorder_of(kind: str) -> Callable[..., Any]:
        def record_weights(part: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
            y, weights = output
            collected.append((kind, weights[0] if weights.dim() == 4 else weights))
            need_weights, average_weights = requests[part]
            return y, None if not need_weights else weights.mean(-3) if average_weights else weights

        return record_weights

    parts = {path: part for path, part in module.named_modules() if isinstance(part, nn.MultiheadAttention)}
    hooks = [part.register_forward_pre_hook(request_weights, with_kwargs=True) for part in parts.values()]
    hooks += [part.register_forward_hook(recorder_of(kind_at(path))) for path, part in parts.items()]
    try:
        yield collected
    finally:
        for hook in hooks:
            hook.remove()


def kind_at(path: str) -> str:
    """Detect the kind from the path: in torch's decoder, `self_attn` is its own attention and `multihead_attn` attends
    to the memory."""
    steps = path.split(".")
    return CROSS if steps[-1] == "multihead_attn" else DECODER if "decoder" in steps else OWN
