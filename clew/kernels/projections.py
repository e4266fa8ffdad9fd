"""The three projections of attention as one product, where their weights lie end to end in memory.

`lay_together` puts them there when a layer is built; loading and training write in place and leave them there. Where they have been
moved apart (another device, an adapter) each runs alone. The view carries no gradient, so it is for inference.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def lay_together(linears: Sequence[nn.Linear]) -> None:
    """Moves the weights, and the biases, of linear maps into one block each; the parameters stay separate."""
    for name in ("weight", "bias"):
        parameters = [getattr(linear, name) for linear in linears]
        if parameters[0] is None:
            continue
        block = torch.cat([parameter.detach() for parameter in parameters])
        for linear, part in zip(linears, block.split([len(parameter) for parameter in parameters]), strict=True):
            setattr(linear, name, nn.Parameter(part))


def project_together(x: Tensor, first: nn.Linear, second: nn.Linear, third: nn.Linear) -> Tensor | None:
    """[first(x); second(x); third(x)] by one product; None where that cannot be."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    weight, bias = first.weight, first.bias
    if not _are_together(weight, second.weight, third.weight):
        return None
    if bias is not None and not _are_together(bias, second.bias, third.bias):
        return None
    rows, columns = first.out_features + second.out_features + third.out_features, first.in_features
    weight = weight.as_strided((rows, columns), (columns, 1))
    return F.linear(x, weight, None if bias is None else bias.as_strided((rows,), (1,)))


def _are_together(first: Tensor, second: Tensor, third: Tensor) -> bool:
    middle = second.data_ptr()
    if first.data_ptr() + first.nbytes != middle or middle + second.nbytes != third.data_ptr():
        return False
    # Blocks of their own may lie side by side by chance; a view may not leave the first.
    return first.untyped_storage().data_ptr() == third.untyped_storage().data_ptr()
