"""The facts that decide which form of attention runs. They are plain values, so the choice can be tested without the
device."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clew.core.modes import is_exporting
from clew.core.sight import Sight

Kind = Literal["none", "linear", "any"]
"""The kind of an attention bias. -c |i - j| with slopes c is linear."""


class Facts(NamedTuple):
    device: str  # "cuda", "cpu", ...
    dtype: torch.dtype  # of the products: autocast's if enabled
    batch: int
    heads: int
    queries: int
    keys: int
    dim: int  # of the queries and keys of one head
    value_dim: int
    rows: int  # of a mask: 1 if all rows of the batch share it
    causal: bool = True
    window: int | None = None
    documents: bool = False
    padded: bool = False
    aligned: bool = True
    bias: Kind = "none"
    dropout: bool = False
    gradient: bool = False
    tracing: Literal["no", "compiling", "exporting"] = "no"
    flex: bool = True  # whether FlexAttention has compiled code for this case or may compile it

    @property
    def is_triangle(self) -> bool:
        return self.causal and self.aligned and self.window is None and not self.documents

    @property
    def is_whole(self) -> bool:
        return not (self.causal or self.documents or self.padded) and self.window is None

    def mask_bytes(self, bias: bool) -> int:
        """Return the bytes of the mask, or of the bias that includes the mask. A mask of only padding is a mask over
        keys, shared by all queries."""
        keys_only = not (bias or self.causal or self.documents) and self.window is None
        return (
            self.rows
            * (self.heads if bias else 1)
            * (1 if keys_only else self.queries)
            * self.keys
            * self.dtype.itemsize
        )


def facts_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Sight,
    bias: Kind,
    dropout: float,
) -> Facts:
    batch, heads, queries, dim = query.shape
    exporting, compiling = is_exporting(), torch.compiler.is_compiling()
    return Facts(
        device=query.device.type,
        dtype=product_type(query),
        batch=batch,
        heads=heads,
        queries=queries,
        keys=key.shape[2],
        dim=dim,
        value_dim=value.shape[-1],
        rows=seen.key_index.shape[0],
        causal=seen.causal,
        window=seen.window,
        documents=seen.documents,
        padded=seen.padded,
        aligned=seen.aligned,
        bias=bias,
        dropout=dropout > 0,
        gradient=torch.is_grad_enabled() and query.requires_grad,
        tracing="exporting" if exporting else "compiling" if compiling else "no",
        # An active function mode must see every function call, but compiled code makes none.
        flex=not (compiling or exporting) and torch._C._len_torch_function_stack() == 0,
    )


def product_type(x: Tensor) -> torch.dtype:
    """Return the dtype of products of x: autocast's if enabled, except for float64, which autocast does not change."""
    device = x.device.type
    if x.dtype != torch.float64 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype
