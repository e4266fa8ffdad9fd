"""The three projections of attention as one product.

In inference it is a product with the block of memory in which `Together` lays their weights end to end; loading and training write in place
and leave them there. Where they have been moved apart (an adapter, a shard) or one is watched, each runs alone.

In training the block carries no gradient. Compiled code joins the weights in each step: under autocast the copy is that of the cast, which
has to be made anyway, and its gradient is a split. For T positions of width d that saves reading x twice and adding three gradients of it,
4 T d numbers; joining 3 d^2 weights costs less by far where T is in the thousands. Eager code takes three products: on a CPU a joined one
takes 0.96 to 1.06 of their time, forwards and backwards.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.taps import is_watched


class Together:
    """[W_1; W_2; ...] x + [b_1; b_2; ...], the parameters being views of one block."""

    def __init__(self, linears: Sequence[nn.Linear]):
        self.weight = _lay_together([linear.weight for linear in linears]) if linears else None
        self.bias = _lay_together([linear.bias for linear in linears]) if linears and linears[0].bias is not None else None

    def __deepcopy__(self, memo: object) -> "Together":
        """Copied parameters lie apart, so that the copy holds none."""
        return Together(())

    def __call__(self, x: Tensor, *linears: nn.Linear) -> Tensor | None:
        """What the linear maps give, side by side; None where they have to run alone."""
        if self.weight is None or any(type(linear) is not nn.Linear for linear in linears):  # an adapter adds something of its own
            return None
        if torch.compiler.is_compiling():
            return _joined(x, linears) if torch.is_grad_enabled() and not torch.compiler.is_exporting() else None
        if torch.is_grad_enabled() or any(is_watched(linear) for linear in linears):
            return None
        if not _is_made_of(self.weight, [linear.weight for linear in linears]):
            return None
        if self.bias is not None and not _is_made_of(self.bias, [linear.bias for linear in linears]):
            return None
        return F.linear(x, self.weight, self.bias)


def _joined(x: Tensor, linears: Sequence[nn.Linear]) -> Tensor:
    weight = torch.cat([linear.weight for linear in linears])
    return F.linear(x, weight, None if linears[0].bias is None else torch.cat([linear.bias for linear in linears]))


def _lay_together(parameters: list[Tensor]) -> Tensor:
    """Moves parameters into one block; they stay the parameters they were."""
    block = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, part in zip(parameters, block.split([len(parameter) for parameter in parameters]), strict=True):
        parameter.data = part
    return block


def _is_made_of(block: Tensor, parts: list[Tensor]) -> bool:
    place = block.data_ptr()
    for part in parts:
        if part.data_ptr() != place:
            return False
        place += part.nbytes
    return True
