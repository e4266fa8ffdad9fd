"""Fast implementations of equations in clew.layers. Each equals its equation in values and gradients; a law checks
this.

Only `choose` decides whether a kernel is used. A module with a watched tap runs its equation, since a kernel has no
intermediate values to show.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

from clew.core.modes import is_exporting
from clew.core.taps import is_watched
from clew.kernels.cells.on_gpu import walk_on_gpu
from clew.kernels.cross_entropy import cross_entropy
from clew.kernels.ctc import ctc
from clew.kernels.decode_attention import decode_attention
from clew.kernels.dot_attention import dot_attention
from clew.kernels.grid_lstm import grid_lstm
from clew.kernels.memory_attention import memory_attention
from clew.kernels.query_blocks import query_blocks
from clew.kernels.recurrent import elman_relu, elman_tanh, gru, lstm
from clew.kernels.rotary import rotary
from clew.kernels.window_blocks import window_blocks

KERNELS: dict[str, Callable[..., Any]] = {
    "elman_tanh": elman_tanh,
    "elman_relu": elman_relu,
    "lstm": lstm,
    "projected_lstm": lstm,
    "gru": gru,
    "walk_on_gpu": walk_on_gpu,
    "grid_lstm": grid_lstm,
    "dot_attention": dot_attention,
    "decode_attention": decode_attention,
    "memory_attention": memory_attention,
    "window_blocks": window_blocks,
    "query_blocks": query_blocks,
    "rotary": rotary,
    "cross_entropy": cross_entropy,
    "ctc": ctc,
}
EAGER_ONLY = {"walk_on_gpu", "grid_lstm", "query_blocks", "decode_attention", "memory_attention", "rotary"}
"""Kernels that compiled code does not use, since a loop over blocks or diagonals would break its graph. The compiled
equation is also fast, although it holds all attention scores."""
OPAQUE = {"cross_entropy"}
"""Kernels that are a single custom operator in compiled code. An exported program runs without clew, so it uses the
equation."""
UNROLLED = {"elman_tanh", "elman_relu", "lstm", "projected_lstm", "gru", "window_blocks"}
"""Kernels that an export would unroll to the length of its example input; so it uses the equation."""

_only_equations: ContextVar[bool] = ContextVar("only_equations", default=False)


def choose(name: str | None, module: nn.Module) -> Callable[..., Any] | None:
    """Return the kernel with this name, or None if `module` must run its equation."""
    if name is None:
        return None
    if is_exporting():
        return None if name in EAGER_ONLY | OPAQUE | UNROLLED else KERNELS[name]
    if torch.compiler.is_compiling():
        return None if name in EAGER_ONLY else KERNELS[name]
    if _only_equations.get() or is_watched(module):
        return None
    return KERNELS[name]


@contextmanager
def only_equations() -> Iterator[None]:
    """Make every layer run its equation within the context, for comparison with kernels."""
    token = _only_equations.set(True)
    try:
        yield
    finally:
        _only_equations.reset(token)


def runs_equations() -> bool:
    """Whether `only_equations` is active. Always False in compiled code, where reading the variable would break the
    graph."""
    return not torch.compiler.is_compiling() and _only_equations.get()
