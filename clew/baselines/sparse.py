"""Sparse matrices in compressed rows."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class Sparse(NamedTuple):
    """Row i has `values[starts[i]:starts[i + 1]]`, in the `columns` at the same indices; all other entries are 0."""

    starts: Tensor  # (rows + 1,)
    columns: Tensor
    values: Tensor
    num_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.num_columns

    @property
    def rows(self) -> Tensor:
        """The row of each entry."""
        return torch.repeat_interleave(self.starts.diff())

    @property
    def mT(self) -> "Sparse":
        flipped = sparse(self.columns.numpy(), self.rows.numpy(), self.values.numpy(), self.shape[::-1])
        return flipped._replace(values=flipped.values.to(self.values.dtype))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """y_i = sum_j x_ij d_j, for d (columns, dim): a bag of the rows of d, weighted."""
        return F.embedding_bag(
            self.columns,
            dense,
            self.starts,
            mode="sum",
            per_sample_weights=self.values.to(dense.dtype),
            include_last_offset=True,
        )

    def to_dense(self) -> Tensor:
        dense = self.values.new_zeros(self.shape)
        dense[self.rows, self.columns] = self.values
        return dense


def sparse(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Sparse:
    """A matrix from entries in any order; entries at the same place are added."""
    num_rows, num_columns = shape
    keys, place = np.unique(np.asarray(rows, np.int64) * num_columns + columns, return_inverse=True)
    summed = np.bincount(place, values, len(keys))
    starts = np.searchsorted(keys, np.arange(num_rows + 1, dtype=np.int64) * num_columns)
    return Sparse(
        torch.from_numpy(starts), torch.from_numpy(keys % max(num_columns, 1)), torch.from_numpy(summed), num_columns
    )
