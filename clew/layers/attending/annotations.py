"""Annotation vectors: a decoder attends to the inputs themselves, with no layer between (Xu et al. 2015). Knows no
decoder."""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.masks import document_starts, has_documents, last_real, real_positions
from clew.core.types import Memory, State
from clew.layers.sequence import SequenceLayer


class Summed(NamedTuple):
    """The sum and the number of the vectors read of the latest document."""

    total: Tensor  # (batch, dim)
    number: Tensor  # (batch, 1)
    document: Tensor  # (batch,) the number of the latest document

    @property
    def mean(self) -> Tensor:
        """The mean vector; zeros before anything is read."""
        return self.total / self.number.clamp(min=1)


class Annotations(SequenceLayer):
    """The inputs, unchanged. The state accumulates their mean, from which a decoder starts (Xu et al. 2015, section
    3.1.2).

    y_i = a_i,   mean = 1/L sum_i a_i
    """

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        document = torch.zeros(batch_size, dtype=torch.long, device=like.device)
        return Summed(like.new_zeros(batch_size, self.dim), like.new_zeros(batch_size, 1), document)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        before = self.initial_state(x.shape[0], like=x) if state is None else state
        total, number, document = before
        counted = real_positions(mask)
        if mask is not None and has_documents(mask):
            # Numbers the documents of a chunk; the latest has the highest number.
            begun = document_starts(mask, document).cumsum(1)
            last = begun[:, -1:] if mask.shape[1] else begun
            counted = (mask > 0) & (begun == last)
            total, number = (torch.where(last > 0, 0.0, part) if mask.shape[1] else part for part in (total, number))
            document = last_real(mask[..., None].long(), mask, document[:, None])[:, 0]
        inside = x if counted is None else torch.where(counted[..., None], x, 0.0)
        more = x.shape[1] if counted is None else counted.sum(1, keepdim=True)
        return x, Summed(total + inside.sum(1), number + more, document)
