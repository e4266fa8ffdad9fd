"""Where a sequence ends: at an end token, or after `max_new` of them."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.kernels.capture import held_by_graphs

End = int | Sequence[int] | None
"""The token that ends a sequence, or several that do, or None: only `max_new` ends it."""


def end_tokens(end: End, vocabulary: int) -> tuple[int, ...]:
    """The end tokens, each once."""
    tokens = [] if end is None else [end] if isinstance(end, int) else sorted(set(end))
    for token in tokens:
        if not 0 <= token < vocabulary:
            raise UserError(f"end token ({token}) must be at least 0 and below vocabulary ({vocabulary})")
    return tuple(tokens)


def check_max_new(max_new: int) -> None:
    if max_new < 1:
        raise UserError(f"max_new ({max_new}) must be at least 1")


def num_going_on(running: int, device: torch.device) -> int:
    """How many rows go on where so many have not ended: on a GPU a power of two, filled up with others, so that shapes repeat."""
    return 2 ** (running - 1).bit_length() if running and device.type == "cuda" else running


@held_by_graphs
@lru_cache(maxsize=256)
def constant(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    """Some tokens (tokens,) on a device, made once: a step that is captured as a graph cannot fetch them from the host."""
    with torch.inference_mode(False):
        return torch.tensor(tokens, dtype=torch.long, device=device)
