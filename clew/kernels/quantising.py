"""Quantisation of matrices to 8 and 4 bits, and back.

    int8:  W_nk ~ s_n Q_nk             Q in -127 .. 127,  s_n = max_k |W_nk| / 127
    int4:  W_nk ~ s_n M_ng C_nk        C in -8 .. 7,  M_ng in -15 .. 15 for each group g of 32 columns,
                                       s_n = max_k |W_nk| / 120

M C fits into 8 bits: int4 is int8 stored in fewer bits, and one product serves both. M of a group is the one with the
least squared error of four candidates for its largest weight. Two 4-bit codes share a byte: column k has the low half,
column k + columns / 2 the high half.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

GROUP = 32
"""The number of columns that share a multiplier."""


class Integers(NamedTuple):
    """A matrix (rows, columns) in 8 bits, or in 4 bits if it has multipliers."""

    codes: Tensor  # (rows, columns) or (rows, columns / 2), int8
    scales: Tensor  # (rows,) in the weight's dtype
    multipliers: Tensor | None = None  # (rows, groups), int8

    @property
    def shape(self) -> tuple[int, int]:
        rows, width = self.codes.shape
        return rows, width if self.multipliers is None else 2 * width

    @property
    def parts(self) -> list[Tensor]:
        return [part for part in self if part is not None]

    def map(self, function: Callable[[Tensor], Tensor]) -> "Integers":
        return Integers(*(function(part) for part in self.parts))

    def int8(self) -> Tensor:
        """Return Q, or M C (rows, columns)."""
        return self.codes if self.multipliers is None else unpacked(self.codes, self.multipliers)

    def floats(self, dtype: torch.dtype) -> Tensor:
        """Return W (rows, columns), rounded once."""
        precise = torch.promote_types(dtype, self.scales.dtype)
        return self.int8().to(precise).mul_(self.scales.to(precise)[:, None]).to(dtype)


def integers_of(weight: Tensor, bits: int) -> Integers:
    return quantise_rows(weight) if bits == 8 else quantise_groups(weight)


def quantise_rows(weight: Tensor) -> Integers:
    scales = weight.abs().amax(1) / 127
    codes = weight / positive(scales)[:, None]
    return Integers(codes.round_().to(torch.int8), scales)


def quantise_groups(weight: Tensor) -> Integers:
    groups = weight.unflatten(1, (-1, GROUP))
    largest = groups.abs().amax(-1)  # (rows, groups)
    scales = largest.amax(1) / (8 * 15)
    step = positive(scales)[:, None]
    most = (largest / (8 * step)).ceil().clamp(1, 15)
    multipliers, codes, least = most, torch.zeros_like(groups), torch.full_like(most, float("inf"))
    for candidate in (most, -most, (most - 1).clamp(min=1), -(most - 1).clamp(min=1)):
        unit = (candidate * step)[..., None]
        rounded = (groups / unit).round_().clamp_(-8, 7)
        error = (rounded * unit - groups).square_().sum(-1)
        better = error < least
        least = torch.where(better, error, least)
        multipliers = torch.where(better, candidate, multipliers)
        codes = torch.where(better[..., None], rounded, codes)
    return Integers(packed(codes.flatten(1).to(torch.int8)), scales, multipliers.to(torch.int8))


def positive(scales: Tensor) -> Tensor:
    """Replace zero scales, which belong to rows of zeros, by 1 for division."""
    return torch.where(scales > 0, scales, 1.0)


def packed(codes: Tensor) -> Tensor:
    """Pack 4-bit codes (rows, columns), two per byte."""
    low, high = codes.chunk(2, 1)
    return (low & 15) | (high << 4)


def unpacked(codes: Tensor, multipliers: Tensor) -> Tensor:
    """Return M C (rows, columns) as int8."""
    rows, half = codes.shape
    whole = torch.empty(rows, 2 * half, dtype=torch.int8, device=codes.device)
    # A left shift moves the sign bit to the top; the right shift then extends it.
    whole[:, :half] = codes << 4
    whole[:, :half] >>= 4
    whole[:, half:] = codes >> 4
    whole.unflatten(1, (-1, GROUP)).mul_(multipliers[..., None])
    return whole
