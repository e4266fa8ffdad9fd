"""The attention weights of modules that are not ours, while they are called: `nn.MultiheadAttention`, and models of `transformers`.

The first is asked for its weights, head by head, whatever its caller asked for, who is given what was asked for. The others compute
weights only where attention is eager, and give them with `output_attentions`; both are put back as they were.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.layers.heads import CROSS, DECODER, OWN

FIELDS = {"encoder_attentions": OWN, "attentions": OWN, "decoder_attentions": DECODER, "cross_attentions": CROSS}
"""Of what a model of transformers gives."""


class ForeignLayer(NamedTuple):
    """A layer that attends, called as `AttendingLayer` calls ours."""

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
    """Whether weights can be had of something in it."""
    return is_of_transformers(module) or any(isinstance(part, nn.MultiheadAttention) for part in module.modules())


def is_of_transformers(module: nn.Module) -> bool:
    """Whether a module has what such a model is asked for weights by."""
    return hasattr(module, "set_attn_implementation") and hasattr(getattr(module, "config", None), "_attn_implementation")


def foreign_weights(module: nn.Module, call: Callable[..., Any]) -> list[ForeignWeights]:
    """Of every layer that attends, by kind and in the order of the calls. `call(**more)` calls the module with more arguments."""
    found: list[tuple[str, Tensor]] = []
    if is_of_transformers(module):
        with eager(module):
            output = call(output_attentions=True)
        for name, kind in FIELDS.items():
            found += [(kind, weights[0]) for weights in getattr(output, name, None) or ()]
    else:
        with weights_kept(module) as found, slow_path():
            call()
    numbers = dict.fromkeys(FIELDS.values(), 0)
    layers = []
    for kind, weights in found:
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
    """An encoder layer of torch's calls its attention as a module, and not one kernel for all of it."""
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


@contextmanager
def weights_kept(module: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Within this context the weights (heads, query, key) of every `nn.MultiheadAttention` are kept as it is called, with their kind."""
    found: list[tuple[str, Tensor]] = []
    asked: dict[nn.Module, tuple[bool, bool]] = {}

    def before(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = dict(zip(("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"), args, strict=False)) | kwargs
        asked[part] = (named.get("need_weights", True), named.get("average_attn_weights", True))
        return (), {**named, "need_weights": True, "average_attn_weights": False}

    def after(kind: str) -> Callable[..., Any]:
        def keep(part: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
            y, weights = output
            found.append((kind, weights[0] if weights.dim() == 4 else weights))
            wanted, averaged = asked[part]
            return y, None if not wanted else weights.mean(-3) if averaged else weights

        return keep

    parts = {path: part for path, part in module.named_modules() if isinstance(part, nn.MultiheadAttention)}
    hooks = [part.register_forward_pre_hook(before, with_kwargs=True) for part in parts.values()]
    hooks += [part.register_forward_hook(after(kind_at(path))) for path, part in parts.items()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def kind_at(path: str) -> str:
    """By where it stands: a decoder of torch's calls its own `self_attn`, and `multihead_attn` what looks at the memory."""
    steps = path.split(".")
    return CROSS if steps[-1] == "multihead_attn" else DECODER if "decoder" in steps else OWN
