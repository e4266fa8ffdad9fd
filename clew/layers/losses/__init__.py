"""Loss terms, as sums: divided by a count over a whole step, they give exact means however the batch is split."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.masks import has_documents, real_positions
from clew.kernels import choose

IGNORED = -100
"""A target that is left out of the loss."""


class Costs(NamedTuple):
    loss: Tensor
    plain: Tensor  # without label smoothing, detached: compares with a validation loss


class CrossEntropy(nn.Module):
    """Cross-entropy of targets under a softmax over the vocabulary, summed over all that are not `IGNORED`.

        loss = - sum_k q_k log softmax(W h + b)_k,    q = (1 - eps) onehot(target) + eps / vocabulary

    eps is `label_smoothing` (Szegedy et al. 2016) in training and 0 in evaluation.
    """

    def __init__(self, label_smoothing: float = 0.0):
        super().__init__()
        self.label_smoothing = label_smoothing

    def forward(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, real: Tensor | None = None
    ) -> Costs:
        """hidden (..., dim) and targets (...); `real` is True where a target counts, None if all do."""
        smoothing = self.label_smoothing if self.training else 0.0
        if real is not None:
            targets = targets.masked_fill(~real, IGNORED)
        kernel = choose("cross_entropy", self)
        if kernel is not None:
            ignore_index = None if real is None else IGNORED
            return Costs(*kernel(hidden, weight, bias, targets, label_smoothing=smoothing, ignore_index=ignore_index))
        logits, targets = F.linear(hidden, weight, bias).flatten(0, -2), targets.flatten()
        loss = F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
        if not smoothing:
            return Costs(loss, loss.detach())
        return Costs(loss, F.cross_entropy(logits.detach(), targets, ignore_index=IGNORED, reduction="sum"))


def squared_activations(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Activation regularisation (Merity et al. 2018): sum_t mean(h_t^2) over real positions; the mean is over
    features."""
    real = real_positions(mask)
    if real is not None:
        hidden = hidden.masked_fill(~real[..., None], 0.0)
    return summed(hidden.square().mean(-1))


def squared_changes(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Temporal activation regularisation (Merity et al. 2018): sum_t mean((h_t - h_{t-1})^2) over pairs of one document
    in the chunk."""
    both = pairs(mask)
    change = hidden[:, 1:] - hidden[:, :-1]
    if both is not None:
        change = change.masked_fill(~both[..., None], 0.0)
    return summed(change.square().mean(-1))


def num_changes(mask: Tensor | None, tokens: Tensor) -> Tensor:
    """The number of pairs of neighbours that `squared_changes` sums over, for tokens (batch, length)."""
    both = pairs(mask)
    return torch.full((), tokens[:, 1:].numel(), device=tokens.device) if both is None else both.sum()


def pairs(mask: Tensor | None) -> Tensor | None:
    """True (batch, length - 1) where a position and the one before it are real and in the same document; None if all
    are."""
    real = real_positions(mask)
    if mask is None or real is None:
        return None
    both = real[:, 1:] & real[:, :-1]
    return both & (mask[:, 1:] == mask[:, :-1]) if has_documents(mask) else both


def summed(values: Tensor) -> Tensor:
    """The sum, accumulated in float32 or wider."""
    return values.sum(dtype=torch.promote_types(values.dtype, torch.float32))
