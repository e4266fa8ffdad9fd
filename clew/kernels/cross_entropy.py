"""The cross-entropy of a softmax over a vocabulary without ever holding all of its logits.

Rows are walked over in chunks. Where gradients are wanted they are taken at once, while a chunk's probabilities are at hand:

    z    = W h + b
    loss = - sum_k q_k log softmax(z)_k,    q = (1 - eps) onehot(target) + eps / vocabulary
    dz   = softmax(z) - q,    dh = W^T dz,    dW = sum dz h^T,    db = sum dz

so that the backward pass only scales them, and needs neither logits nor weights. Under autocast products are in its dtype; the
softmax, the loss and the sums over chunks are in float32.
"""

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

LOGITS = {"cpu": 2**22}
OTHER_LOGITS = 2**26
LEAST_ROWS = 128
"""How many logits a chunk holds, by device, and of how many rows at least: below that, reading W costs more than the products."""
FEW = 16
"""A problem of less than this part of a chunk is not worth walking over."""


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    rows: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss, and what it is without smoothing and without a gradient, both summed over the targets that are not `ignore_index`."""
    hidden, targets = hidden.flatten(0, -2), targets.flatten()
    share = LOGITS.get(hidden.device.type, OTHER_LOGITS)
    if rows is None and not label_smoothing and len(hidden) * len(weight) < share // FEW:
        nothing = -100 if ignore_index is None else ignore_index
        loss = F.cross_entropy(F.linear(hidden, weight, bias), targets, ignore_index=nothing, reduction="sum")
        return loss, loss.detach()
    rows = rows or chunk_rows(len(hidden), len(weight), share)
    wants_gradients = torch.is_grad_enabled()  # which a Function's forward cannot see
    given = (hidden, weight, bias, targets, label_smoothing, ignore_index, rows, wants_gradients)
    found: tuple[Tensor, Tensor] = ChunkedCrossEntropy.apply(*given)  # type: ignore[no-untyped-call]
    return found


def chunk_rows(num_rows: int, vocabulary: int, share: int) -> int:
    """How many rows a chunk has: chunks are as equal as can be, and hold at most `share` logits unless that would be too few rows."""
    most = max(LEAST_ROWS, share // vocabulary)
    num_chunks = max(1, -(-num_rows // most))
    return max(1, -(-num_rows // num_chunks))


class ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        label_smoothing: float,
        ignore_index: int | None,
        rows: int,
        wants_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        gradients = Gradients(*(wants_gradients and needed for needed in ctx.needs_input_grad[:3]))
        device = hidden.device.type
        autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast and hidden.dtype != torch.float64 else hidden.dtype
        precise = torch.promote_types(dtype, torch.float32)
        inputs, matrix, offset = hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        ignored = None if ignore_index is None else targets == ignore_index
        if ignored is not None:
            # Zeros have finite logits and add nothing to dW, whatever stands on padding.
            inputs, targets = inputs.masked_fill(ignored[:, None], 0.0), targets.masked_fill(ignored, 0)
        plain, uniform = hidden.new_zeros(2, dtype=precise).unbind(0)
        with torch.autocast(device, enabled=False) if autocast else nullcontext():
            for start in range(0, len(inputs), rows):
                part = slice(start, start + rows)
                x, target, skipped = inputs[part], targets[part, None], None if ignored is None else ignored[part]
                log_probs = F.linear(x, matrix, offset).log_softmax(-1, dtype=precise)  # (rows, vocabulary)
                plain = plain - sum_over(log_probs.gather(1, target)[:, 0], skipped)
                if label_smoothing:
                    uniform = uniform - sum_over(log_probs.mean(1), skipped)
                if gradients.wanted:
                    error = log_probs.exp_()
                    if label_smoothing:
                        error -= label_smoothing / len(weight)
                    error.scatter_add_(1, target, error.new_full((len(x), 1), label_smoothing - 1))
                    gradients.add(error, x, matrix, skipped)
        ctx.save_for_backward(*gradients.total(hidden, weight, bias, ignored))
        ctx.mark_non_differentiable(plain)
        return (1 - label_smoothing) * plain + label_smoothing * uniform, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> Any:
        gradients = (None if gradient is None else gradient * scale for gradient in ctx.saved_tensors)
        return *gradients, None, None, None, None, None


class Gradients:
    """dh, dW and db, as far as each is wanted, gathered chunk by chunk."""

    def __init__(self, for_hidden: bool, for_weight: bool, for_bias: bool):
        self.for_hidden, self.for_weight, self.for_bias = for_hidden, for_weight, for_bias
        self.wanted = for_hidden or for_weight or for_bias
        self.hidden: list[Tensor] = []
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None

    def add(self, error: Tensor, x: Tensor, matrix: Tensor, skipped: Tensor | None) -> None:
        """`error` (rows, vocabulary) is dz."""
        if self.for_bias:
            bias = error.sum(0) if skipped is None else (~skipped).to(error.dtype) @ error
            self.bias = bias if self.bias is None else self.bias + bias
        precise, error = error.dtype, error.to(x.dtype)
        if self.for_hidden:
            self.hidden.append(error @ matrix)
        if self.for_weight:
            if self.weight is None:
                self.weight = (error.mT @ x).to(precise)
            else:
                self.weight = self.weight.addmm_(error.mT, x) if precise == x.dtype else self.weight.add_(error.mT @ x)

    def total(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, ignored: Tensor | None) -> tuple[Tensor | None, ...]:
        """In the dtypes of what they are gradients of; zeros where there were no rows, None where not wanted."""
        found: list[Tensor | None] = [None, None, None]
        if self.for_hidden:
            whole = self.hidden[0] if len(self.hidden) == 1 else torch.cat([hidden[:0], *(part.to(hidden.dtype) for part in self.hidden)])
            found[0] = (whole if ignored is None else whole.masked_fill(ignored[:, None], 0.0)).to(hidden.dtype)
        if self.for_weight:
            found[1] = torch.zeros_like(weight) if self.weight is None else self.weight.to(weight.dtype)
        if self.for_bias and bias is not None:
            found[2] = torch.zeros_like(bias) if self.bias is None else self.bias.to(bias.dtype)
        return tuple(found)


def sum_over(values: Tensor, skipped: Tensor | None) -> Tensor:
    return values.sum() if skipped is None else values.masked_fill(skipped, 0.0).sum()
