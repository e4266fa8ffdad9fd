"""Attention that has to hold scores, a bias or a mask (Shaw's positions, additive scores, any bias), a block of queries at a time.

A block's scores are made again in the backward pass, so that never more than block x key of them are held. Where causal, a block is shown
no keys after its last query, which makes up for what is done twice.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clew.core.masks import Places
from clew.core.sight import Sight
from clew.kernels.attention_facts import Facts

LONG = 2048
"""From this many queries on; fewer hold their scores."""
SIZE, LARGEST = 256, 2048
"""Queries of a block, and of the largest on a GPU, which a small block leaves idle."""
HELD = 2**30
"""Bytes of a mask or a bias that a GPU may hold: attention with it is faster than blocks, which are computed twice."""
HELD_BY_BLOCK = 2**28


def takes_blocks(facts: Facts, *, bias: bool) -> bool:
    """Whether a mask, or a bias, of query x key is too large to be held."""
    if facts.tracing != "no":
        return False
    if facts.device == "cuda":
        return facts.queries > SIZE and facts.held(bias) > HELD
    return bias and facts.queries >= LONG


def holds_too_much(device: str, batch: int, heads: int, queries: int, keys: int) -> bool:
    """Whether scores that have to be held are cut: they are long, or on a GPU many, in the float32 of a softmax."""
    return queries >= LONG or (device == "cuda" and queries > SIZE and batch * heads * queries * keys * 4 > HELD)


def block_size(facts: Facts, *, bias: bool) -> int:
    """A multiple of SIZE whose mask or bias is small."""
    if facts.device != "cuda":
        return SIZE
    fitting = HELD_BY_BLOCK * facts.queries // max(1, facts.held(bias))
    return max(SIZE, min(LARGEST, fitting // SIZE * SIZE))


def query_blocks(attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, seen: Sight, size: int | None = None) -> Tensor:
    """`attend(query, key, value, places, key_index, seen)` over blocks of queries."""
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
