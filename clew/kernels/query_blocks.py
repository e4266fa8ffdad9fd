"""Attention whose scores have to be held (Shaw's positions, additive scores, biases of any form), a block of queries at a time.

A block's scores are made again in the backward pass, so that never more than block x key of them are held. Where causal, a block is shown
no keys after its last query, which makes up for what is done twice.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clew.core.masks import Places
from clew.core.sight import Sight

LONG = 2048
"""From this many queries on; fewer hold their scores."""
SIZE = 256


def query_blocks(attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, seen: Sight) -> Tensor:
    """`attend(query, key, value, places, key_index, seen)` over blocks of queries."""
    places, contexts = seen.places, []
    for start in range(0, query.shape[2], SIZE):
        end = min(start + SIZE, query.shape[2])
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
