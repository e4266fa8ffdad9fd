"""Convolutions over time and frequency, applied to frames before a body reads them. Knows no sound."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.layers.shapes.resnet import within

LEAST_BANDS = 4
"""Pooling pairs of bands twice must leave one."""


class SpectrogramConvolution(nn.Module):
    """Two convolutions over frames and bands (following Amodei et al. 2016, Deep Speech 2).

        h = pool_1(relu(C1 x)),   y = pool_2(relu(C2 h))

    C1 covers 5 frames and 5 bands, C2 3 and 3. Both poolings take maxima over pairs of bands, the second also over the
    `stack` frames of a position, so that a position's vector has channels * (bands // 4) numbers. Another voice shifts
    the formants by some bands, where a convolution still finds the pattern. Outputs do not depend on padding.
    """

    def __init__(self, bands: int, channels: int, *, stack: int = 1, parts: int = 1):
        super().__init__()
        if bands < LEAST_BANDS:
            raise UserError(
                f"a convolution over bands halves them twice, and there are {bands}; read at least {LEAST_BANDS}"
            )
        self.bands, self.stack, self.parts = bands, stack, parts
        self.width = channels * (bands // 4)
        self.first = nn.Conv2d(parts, channels, 5, padding=2)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (batch, positions, stack * parts * bands); `lengths` (batch,) are the numbers of real positions, all by
        default."""
        # (batch, parts, frames, bands)
        frames = x.unflatten(-1, (self.stack, self.parts, self.bands)).flatten(1, 2).movedim(2, 1)
        real = None
        if lengths is not None:
            steps = torch.arange(frames.shape[2], device=x.device)
            real = (steps < self.stack * lengths[:, None])[:, None, :, None]  # (batch, 1, frames, 1)
        h = F.max_pool2d(torch.relu(self.first(within(frames, real))), (1, 2))
        y = F.max_pool2d(torch.relu(self.second(within(h, real))), (self.stack, 2))
        return y.movedim(1, 2).flatten(2)  # (batch, positions, width)
