"""Attention within a window, one block of queries at a time, so that memory grows linearly with the length.

A block of queries sees the keys at its own positions and a window before them (on both sides if not causal). The blocks
become rows of a batch, each with its own piece of the keys, and attention over them is ordinary attention with another
`Sight`: any score, position or kernel applies.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.masks import Places
from clew.core.sight import Sight

SMALLEST, LARGEST = 128, 512
"""A block has as many queries as the window is wide, within these limits."""
ALIGNED = 8
"""The number of keys before a block is a multiple of this, so that the rows of a mask are aligned for GPUs."""


class Blocks(NamedTuple):
    """Blocks as rows: query (batch * blocks, heads, block, dim), key and value (batch * blocks, heads, block and
    window, dim)."""

    query: Tensor
    key: Tensor
    value: Tensor
    seen: Sight
    batch: int
    length: int

    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Places, Tensor, Sight]:
        """Return the arguments of attention over the blocks."""
        return self.query, self.key, self.value, self.seen.places, self.seen.key_index, self.seen

    def join(self, context: Tensor) -> Tensor:
        """Join blocks: (batch * blocks, heads, block, dim) -> (batch, heads, length, dim)."""
        in_rows = context.view(self.batch, -1, *context.shape[1:]).transpose(1, 2)
        return in_rows.flatten(2, 3)[:, :, : self.length]


def window_blocks(query: Tensor, key: Tensor, value: Tensor, seen: Sight) -> Blocks | None:
    """Cut queries, keys and values into blocks. Return None if queries and keys are not aligned, or if blocks would
    save less than half."""
    reach = furthest(seen) if seen.aligned else None
    if reach is None:
        return None
    batch, length = query.shape[0], query.shape[2]
    before = -(-reach // ALIGNED) * ALIGNED
    after = 0 if seen.causal else before
    size = max(SMALLEST, min(LARGEST, before))
    if length < 2 * (before + size + after):
        return None
    count = -(-length // size)
    missing = count * size - length

    def cut(x: Tensor, before: int = 0, after: int = 0) -> Tensor:
        """Cut x into blocks: (batch, heads, length, dim) -> (batch * blocks, heads, before + size + after, dim)."""
        pieces = F.pad(x, (0, 0, before, missing + after)).unfold(2, before + size + after, size)
        return pieces.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def cut_index(index: Tensor, before: int = 0, after: int = 0, value: int = -1) -> Tensor:
        pieces = F.pad(index.expand(batch, -1), (before, missing + after), value=value).unfold(
            1, before + size + after, size
        )
        return pieces.flatten(0, 1)

    places = Places(cut_index(seen.places.index), cut_index(seen.places.start, value=0))
    key_start = None if seen.key_start is None else cut_index(seen.key_start, before, after)
    key_index = cut_index(seen.key_index, before, after)
    of_blocks = Sight(places, key_index, seen.causal, seen.window, seen.documents, padded=True, key_start=key_start)
    return Blocks(cut(query), cut(key, before, after), cut(value, before, after), of_blocks, batch, length)


def furthest(seen: Sight) -> int | None:
    """Return how far any query sees: the window, or less if documents are shorter, which is checked only on a CPU, to
    avoid waiting for a GPU."""
    places = seen.places
    if (
        not seen.documents
        or places.index.device.type != "cpu"
        or torch.compiler.is_compiling()
        or not places.index.numel()
    ):
        return seen.window
    longest = max(0, int((places.index - places.start).max()))
    return longest if seen.window is None else min(seen.window, longest)
