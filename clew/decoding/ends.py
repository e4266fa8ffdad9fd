"""Where a sequence ends: at an end token, or after `max_new` of them."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.kernels.capture import held_by_graphs

End = int | Sequence[int] | None
"""The end token of a sequence, or several of them; None: only `max_new` ends it."""


def end_tokens(end: End, vocabulary: int) -> tuple[int, ...]:
    """Check the end tokens and return each once."""
    tokens = [] if end is None else [end] if isinstance(end, int) else sorted(set(end))
    for token in tokens:
        if not 0 <= token < vocabulary:
            raise UserError(f"end token ({token}) must be at least 0 and below vocabulary ({vocabulary})")
    return tuple(tokens)


def check_max_new(max_new: int) -> None:
    if max_new < 1:
        raise UserError(f"max_new ({max_new}) must be at least 1")


def padded_count(running: int, device: torch.device) -> int:
    """Number of rows to keep for `running` running ones: on a GPU the next power of two, so that shapes repeat; ended
    rows fill the rest."""
    return 2 ** (running - 1).bit_length() if running and device.type == "cuda" else running


@held_by_graphs
@lru_cache(maxsize=256)
def constant(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    """Return tokens as a tensor (tokens,) on a device. Cached, since a step captured as a graph cannot copy them from
    the host."""
    with torch.inference_mode(False):
        return torch.tensor(tokens, dtype=torch.long, device=device)
