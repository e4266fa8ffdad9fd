"""The precision of a trained model's weights: float32, bfloat16, or matrices in int8 or int4
(`clew.kernels.quantising`)."""

import torch
from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.kernels.quantised_weight import QuantisedWeight
from clew.kernels.quantising import GROUP, integers_of
from clew.layers.attention import SelfAttention
from clew.layers.losses.crf import CRF
from clew.layers.positions import Position
from clew.layers.shapes.patches import GridPosition

PRECISIONS = ("float32", "bfloat16", "int8", "int4")
BITS = {"int8": 8, "int4": 4}
LEAST_SIDE = 16
"""A matrix with a shorter side stays float: it is small, and an output over few labels is sensitive to every weight."""
FLOAT = (CRF, Position, GridPosition)
"""Modules whose matrices are added or indexed by place; they stay float."""


def quantise(module: nn.Module, precision: str) -> nn.Module:
    """Convert a module's weights to a precision, in place.

    int8 and int4 apply to matrices (linear maps, recurrent weights, tables of tokens). Norms, biases, convolutions and
    positions stay float, and all arithmetic but the products is in float. With int4, a matrix whose width is not a
    multiple of the group size is int8. A run's folder keeps float32: weights are rounded when a run is read.

    Weights in int8 or int4 cannot be trained.
    """
    check_precision(precision)
    if precision == "float32":
        return module
    if precision == "bfloat16":
        return module.to(torch.bfloat16)
    module.requires_grad_(False)
    kept: dict[int, nn.Parameter] = {}  # so that a shared weight stays shared
    for part in module.modules():
        if not isinstance(part, FLOAT):
            for name, parameter in list(part._parameters.items()):
                if parameter is not None and is_matrix(parameter):
                    part._parameters[name] = kept.setdefault(id(parameter), quantised(parameter, BITS[precision]))
    for part in module.modules():
        if isinstance(part, SelfAttention):
            part.lay_together()
    return module


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)


def is_matrix(weight: Tensor) -> bool:
    is_float = weight.dim() == 2 and weight.is_floating_point() and not isinstance(weight, QuantisedWeight)
    return is_float and min(weight.shape) >= LEAST_SIDE


def quantised(weight: Tensor, bits: int) -> nn.Parameter:
    bits = 8 if weight.shape[1] % GROUP else bits
    return nn.Parameter(QuantisedWeight(integers_of(weight.detach(), bits)), requires_grad=False)


def is_quantised(module: nn.Module) -> bool:
    return any(isinstance(parameter, QuantisedWeight) for parameter in module.parameters())


def check_whole(module: nn.Module, action: str) -> None:
    """Refuse to write weights that have lost digits."""
    if is_quantised(module) or any(parameter.dtype == torch.bfloat16 for parameter in module.parameters()):
        raise UserError(
            f"a run whose weights were loaded in bfloat16, int8 or int4 cannot be {action}; load it without a precision"
        )


def num_bytes(module: nn.Module) -> int:
    """The memory that a module's parameters and buffers take."""
    tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}.values()
    parts = [tensor.integers.parts if isinstance(tensor, QuantisedWeight) else [tensor] for tensor in tensors]
    return sum(part.nbytes for tensor_parts in parts for part in tensor_parts)
