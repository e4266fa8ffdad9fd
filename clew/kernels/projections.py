"""The three projections of attention as one product.

In inference it is a product with one block of memory, in which `Together` stores their weights one after another;
loading and training write in place and keep this layout. If the weights have been separated (by an adapter, a shard),
or if one projection is watched, each runs separately.

The block has no gradient, so training concatenates the weights in each step; the gradient of a concatenation is a
split. For T positions of width d, one product saves reading x twice and adding its three gradients, 4 T d numbers;
concatenation costs 6 d^2, which is less if T is above a few d. In compiled code under autocast it costs nothing, since
casting copies the weights in any case.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.modes import is_exporting
from clew.core.taps import is_watched
from clew.kernels import runs_equations
from clew.kernels.quantised_weight import QuantisedWeight, join_rows, stored


class Together:
    """[W_1; W_2; ...] x + [b_1; b_2; ...], where the parameters are views of one block."""

    def __init__(self, linears: Sequence[nn.Linear]):
        self.weight = _lay_together([linear.weight for linear in linears]) if linears else None
        self.bias = (
            _lay_together([linear.bias for linear in linears]) if linears and linears[0].bias is not None else None
        )

    def __deepcopy__(self, memo: object) -> "Together":
        """Return an empty object: the copied parameters no longer share a block."""
        return Together(())

    def __call__(self, x: Tensor, *linears: nn.Linear) -> Tensor | None:
        """Return the concatenated outputs of the linear maps, or None if they must run separately."""
        if self.weight is None or not all(map(_is_plain, linears)):
            return None
        if torch.is_grad_enabled():
            return None if is_exporting() or isinstance(self.weight, QuantisedWeight) else _joined(x, linears)
        if torch.compiler.is_compiling() or not _is_made_of(self.weight, [linear.weight for linear in linears]):
            return None
        if self.bias is not None and not _is_made_of(self.bias, [linear.bias for linear in linears]):
            return None
        return F.linear(x, self.weight, self.bias)


def _is_plain(linear: nn.Linear) -> bool:
    """Whether the module is only a product: an adapter adds a term, and hooks run only when the module itself is
    called."""
    if type(linear) is not nn.Linear or linear._forward_hooks or linear._forward_pre_hooks:
        return False
    return torch.compiler.is_compiling() or not (is_watched(linear) or runs_equations())


def _joined(x: Tensor, linears: Sequence[nn.Linear]) -> Tensor:
    weight = torch.cat([linear.weight for linear in linears])
    return F.linear(x, weight, None if linears[0].bias is None else torch.cat([linear.bias for linear in linears]))


def _lay_together(parameters: list[Tensor]) -> Tensor | None:
    """Move parameters into one block; they remain the same parameters. Return None if quantised and other weights are
    mixed."""
    if any(isinstance(parameter, QuantisedWeight) for parameter in parameters):
        return join_rows(parameters)
    block = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, part in zip(parameters, block.split([len(parameter) for parameter in parameters]), strict=True):
        parameter.data = part
    return block


def _is_made_of(block: Tensor, parts: list[Tensor]) -> bool:
    place = stored(block).data_ptr()
    for part in map(stored, parts):
        if part.data_ptr() != place:
            return False
        place += part.nbytes
    return True
