"""What the form that attention takes depends on, as plain values: a form can be asked for without the device that would run it."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clew.core.modes import is_exporting
from clew.core.sight import Sight

Kind = Literal["none", "linear", "any"]
"""Of a bias: -c |i - j| for slopes c is linear."""


class Facts(NamedTuple):
    device: str  # "cuda", "cpu", ...
    dtype: torch.dtype  # in which products are taken: autocast's where it is on
    batch: int
    heads: int
    queries: int
    keys: int
    dim: int  # of a head's queries and keys
    value_dim: int
    rows: int  # of a mask: 1 where every row of the batch sees the same
    causal: bool = True
    window: int | None = None
    documents: bool = False
    padded: bool = False
    aligned: bool = True
    bias: Kind = "none"
    dropout: bool = False
    gradient: bool = False
    tracing: Literal["no", "compiling", "exporting"] = "no"
    flex: bool = True  # whether FlexAttention has code for this case or may compile it

    @property
    def is_triangle(self) -> bool:
        return self.causal and self.aligned and self.window is None and not self.documents

    @property
    def is_whole(self) -> bool:
        return not (self.causal or self.documents or self.padded) and self.window is None

    def held(self, bias: bool) -> int:
        """Bytes of the mask, or of the bias with the mask in it. Padding alone is a mask of keys, the same for all queries."""
        alone = not (bias or self.causal or self.documents) and self.window is None
        return self.rows * (self.heads if bias else 1) * (1 if alone else self.queries) * self.keys * self.dtype.itemsize


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
        # A mode sees each function that is called, which compiled code does not call one by one.
        flex=not (compiling or exporting) and torch._C._len_torch_function_stack() == 0,
    )


def product_type(x: Tensor) -> torch.dtype:
    """The type in which autocast, where it is on, has products of x; it leaves float64 alone."""
    device = x.device.type
    if x.dtype != torch.float64 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype
