"""Linear biases (ALiBi) under a causal mask as extra columns of query and key, so that attention needs no tensor of
query x key.

    scale q_i . k_j - c (i - j)  =  scale [q_i; c / scale] . [k_j; j] - c i

and the softmax over j does not depend on c i. Key positions are counted from the middle of a row, which keeps the
products small. On a GPU the factors of products have 8 bits in bfloat16 (11 in TF32), though the sums have more. So a
position becomes two columns and a slope three parts, each exact in 8 bits.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.kernels.attention_facts import Facts

LONG = 128
"""The minimum number of queries. For fewer, a bias is small, and columns would cost as much."""
STRIDE = 128
"""A position is split into a multiple of this and a remainder; both need at most 8 bits up to 2^15 positions from the
middle."""


BY_CUDNN = False
"""Whether cuDNN may run attention with columns on a GPU. Otherwise flash attention runs it, which computes 64 + 8
columns as heads of 96."""


def takes_columns(facts: Facts) -> bool:
    # In half precision a CPU would round the columns; on a GPU they are split into exact parts.
    exact = facts.device == "cuda" or facts.dtype in (torch.float32, torch.float64)
    return (
        facts.bias == "linear"
        and exact
        and facts.causal
        and facts.tracing != "exporting"
        and facts.queries >= LONG
        and facts.dim == facts.value_dim
    )


def with_columns(
    query: Tensor, key: Tensor, value: Tensor, slopes: Tensor, scale: float, key_index: Tensor, *, in_bits: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Append the columns to query, key and value, padded to a multiple of 8; the value's are 0. `in_bits` splits them
    into parts of 8 bits."""
    middle = key_index.amax(1, keepdim=True) - key_index.shape[1] // 2
    place = key_index - middle  # (rows, key)
    factor = slopes.to(torch.promote_types(query.dtype, torch.float32)) / scale
    if in_bits:
        rest = (place + STRIDE // 2) % STRIDE - STRIDE // 2
        places, factors = [place - rest, rest], in_parts(factor)
    else:
        places, factors = [place], [factor]
    of_query = torch.stack([part for part in factors for _ in places], -1).to(query.dtype)  # (heads, columns)
    of_key = torch.stack(places * len(factors), -1).to(key.dtype)  # (rows, key, columns)
    spare = -(query.shape[-1] + of_query.shape[-1]) % 8
    of_query, of_key = F.pad(of_query, (0, spare)), F.pad(of_key, (0, spare))
    query = torch.cat([query, of_query[None, :, None].expand(*query.shape[:3], -1)], -1)
    key = torch.cat([key, of_key[:, None].expand(*key.shape[:3], -1)], -1)
    return query, key, F.pad(value, (0, of_query.shape[-1]))


def linear_bias(slopes: Tensor, query_index: Tensor, key_index: Tensor) -> Tensor:
    """Return the bias -c |i - j| (rows, heads, query, key) itself, for forms without columns."""
    distance = (query_index[:, :, None] - key_index[:, None, :]).abs()
    return -slopes[:, None, None] * distance[:, None]


def in_parts(factor: Tensor) -> list[Tensor]:
    """Split `factor` into three numbers of 8 bits whose sum is exact to 24 bits."""
    parts: list[Tensor] = []
    for _ in range(3):
        parts.append((factor - sum(parts)).to(torch.bfloat16).to(factor.dtype))
    return parts
