"""Linear biases under a causal mask as columns of query and key, so that attention needs no tensor of query x key.

    scale q_i . k_j - c (i - j)  =  scale [q_i; c / scale] . [k_j; j] - c i

and the softmax over j does not see c i. Key positions are counted from the middle of a row, where their products are smallest. On a GPU
products are of bfloat16's 8 bits (of TF32's 11), though their sums are not: there a position is two columns and a slope three parts, each
of which 8 bits hold exactly.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.kernels.attention_facts import Facts

LONG = 128
"""From this many queries on. A bias for fewer is small, and the columns would cost as much."""
STRIDE = 128
"""A position is a multiple of this and a rest, both of at most 8 bits up to 2^15 positions from the middle."""


BY_CUDNN = False
"""Whether a GPU leaves the columns to cuDNN. If not, flash attention has them, which computes heads of 64 and 8 columns as heads of 96."""


def takes_columns(facts: Facts) -> bool:
    # A CPU would round the columns to half precision whole, a GPU is given them in parts that survive it.
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
    """The three with columns behind them, up to a width that is a multiple of 8; the value's are 0. `in_bits` makes them of 8 bits."""
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
    """-c |i - j|, (rows, heads, query, key): the bias itself, for what takes no columns."""
    distance = (query_index[:, :, None] - key_index[:, None, :]).abs()
    return -slopes[:, None, None] * distance[:, None]


def in_parts(factor: Tensor) -> list[Tensor]:
    """Three numbers of 8 bits whose sum is `factor` to 24 bits."""
    parts: list[Tensor] = []
    for _ in range(3):
        parts.append((factor - sum(parts)).to(torch.bfloat16).to(factor.dtype))
    return parts
