"""Grids of vectors as inputs of a body: pixels or patches of pictures, words against words, any numbers in two
dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.sources.vectors import Vectors


@dataclass(frozen=True)
class VectorGrids(Vectors):
    """Vectors of `width` features in every cell. An example is a tensor (height, width, features), of any height and
    width."""

    def collate(self, examples: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Grids (batch, height, width, features), padded below and on the right, and the mask (batch, height, width) of
        real cells."""
        for number, example in enumerate(examples):
            if example.dim() != 3 or example.shape[2] != self.width:
                raise UserError(
                    f"example {number} has the shape {list(example.shape)}; grids are (height, width, {self.width})"
                )
        height, width = (max(example.shape[axis] for example in examples) for axis in (0, 1))
        grids = examples[0].new_zeros(len(examples), height, width, self.width)
        mask = torch.zeros(len(examples), height, width, dtype=torch.bool)
        for row, example in enumerate(examples):
            grids[row, : example.shape[0], : example.shape[1]] = example
            mask[row, : example.shape[0], : example.shape[1]] = True
        return grids, None if bool(mask.all()) else mask
