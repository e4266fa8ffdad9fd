"""Published forms of dropout. Each scales what it keeps by 1 / (1 - p) and does nothing in evaluation."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError


class Dropout(nn.Module):
    """Drops each feature of each position independently (Srivastava et al. 2014)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = checked("dropout", p)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p) if self.training and self.p else x


class LockedDropout(nn.Module):
    """Drops the same features at every position: one mask per row and chunk (Gal and Ghahramani 2016)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = checked("dropout", p)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return x * F.dropout(torch.ones_like(x[:, :1]), self.p)  # (batch, 1, dim)


def checked(name: str, p: float) -> float:
    """The probability, if valid. p = 1 would leave nothing to scale up."""
    if not 0 <= p < 1:
        raise UserError(f"{name} ({p}) must be at least 0 and below 1")
    return p


def drop_words(weight: Tensor, p: float, training: bool) -> Tensor:
    """Embedding dropout: drops whole rows of the table, so that a word is dropped at all its occurrences (Gal and
    Ghahramani 2016)."""
    if not training or p == 0:
        return weight
    return weight * F.dropout(weight.new_ones(len(weight), 1), p)


def drop_weight(weight: Tensor, p: float, training: bool) -> Tensor:
    """Weight-drop (DropConnect on hidden-to-hidden weights, Merity et al. 2018): one mask per chunk, the same at every
    step."""
    return F.dropout(weight, p) if training and p else weight


DROPOUTS = {"plain": Dropout, "locked": LockedDropout}
