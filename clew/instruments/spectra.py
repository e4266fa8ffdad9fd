"""Singular values and spectral radius of the recurrent matrices of a cell, by gate.

Going back one step multiplies a gradient by U and by factors of the gates and the nonlinearity. With tanh, a largest
singular value below 1 is sufficient for gradients to vanish, and one above 1 is necessary for them to explode (Pascanu
et al. 2013).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from clew.instruments.subjects.recurrent_layers import gate_names


class Spectrum(NamedTuple):
    singular_values: Tensor  # largest first
    radius: float  # the largest |eigenvalue|


def recurrent_matrices(cell: nn.Module) -> dict[str, Tensor]:
    """Return U of every gate, from h to h; for a projected cell P U, which has the same eigenvalues as the product over
    its wide state."""
    weight = getattr(cell, "hidden_weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return {}
    names = [name.removeprefix("gates.") for name in gate_names(cell)] or ["hidden"]
    if weight.shape[0] % len(names):
        return {}
    parts = dict(zip(names, weight.detach().cpu().double().chunk(len(names)), strict=True))
    projection = getattr(cell, "projection", None)
    if isinstance(projection, Tensor):
        parts = {name: projection.detach().cpu().double() @ part for name, part in parts.items()}
    return {name: part for name, part in parts.items() if part.shape[0] == part.shape[1]}


def spectrum(matrix: Tensor) -> Spectrum:
    return Spectrum(torch.linalg.svdvals(matrix), float(torch.linalg.eigvals(matrix).abs().max()))
