"""Attention one block of queries at a time, for forms that hold scores, a bias or a mask (Shaw's positions, additive
scores, any bias).

The scores of a block are recomputed in the backward pass, so at most block x key of them are held. If causal, a block
skips the keys after its last query, which compensates for the recomputation.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clew.core.masks import Places
from clew.core.sight import Sight
from clew.kernels.attention_facts import Facts

LONG = 2048
"""The minimum number of queries; with fewer, all scores are held."""
SIZE, LARGEST = 256, 2048
"""The number of queries of a block, and the maximum on a GPU, where small blocks leave processors idle."""
HELD = 2**30
"""The maximum bytes of a mask or bias that is held on a GPU. This is faster than blocks, which are computed twice."""
HELD_BY_BLOCK = 2**28


def takes_blocks(facts: Facts, *, bias: bool) -> bool:
    """Whether a mask or bias of query x key is too large to hold in memory."""
    if facts.tracing != "no":
        return False
    if facts.device == "cuda":
        return facts.queries > SIZE and facts.mask_bytes(bias) > HELD
    return bias and facts.queries >= LONG


def holds_too_much(device: str, batch: int, heads: int, queries: int, keys: int) -> bool:
    """Whether scores (float32, as in a softmax) are computed in blocks: for many queries, or on a GPU for many
    bytes."""
    return queries >= LONG or (device == "cuda" and queries > SIZE and batch * heads * queries * keys * 4 > HELD)


def block_size(facts: Facts, *, bias: bool) -> int:
    """Return a multiple of SIZE for which the mask or bias of a block is small."""
    if facts.device != "cuda":
        return SIZE
    fitting = HELD_BY_BLOCK * facts.queries // max(1, facts.mask_bytes(bias))
    return max(SIZE, min(LARGEST, fitting // SIZE * SIZE))


def query_blocks(
    attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, seen: Sight, size: int | None = None
) -> Tensor:
    """Call `attend(query, key, value, places, key_index, seen)` for each block of queries and join the results."""
    places, contexts, size = seen.places, [], size or SIZE
    for start in range(0, query.shape[2], size):
        end = min(start + size, query.shape[2])
        keys = end if seen.causal and seen.aligned else key.shape[2]
        part = seen._replace(
            places=Places(places.index[:, start:end], places.start[:, start:end]),
            key_index=seen.key_index[:, :keys],
            key_start=None if seen.key_start is None else seen.key_start[:, :keys],
            aligned=False,
        )
        arguments = (query[:, :, start:end], key[:, :, :keys], value[:, :, :keys], part.places, part.key_index, part)
        if torch.is_grad_enabled():
            contexts.append(checkpoint(attend, *arguments, use_reentrant=False))
        else:
            contexts.append(attend(*arguments))
    return torch.cat(contexts, 2)
