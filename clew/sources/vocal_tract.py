"""Simulates speakers of other sizes by warping the frequency axis of training frames. Knows no sound."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clew.core.errors import UserError


@dataclass(frozen=True)
class VocalTract:
    """Vocal tract length perturbation (Jaitly and Hinton 2013), on log-mel bands.

        y_t[j] = x_t[a j],    a ~ U(1 - spread, 1 + spread), one per row

    x is interpolated linearly between bands, and constant above the last band. A shorter vocal tract has higher
    formants, so a below 1 simulates a smaller speaker. Draws come from torch's generator, as in dropout.
    """

    spread: float

    def __post_init__(self) -> None:
        if not 0 <= self.spread < 1:
            raise UserError(f"vocal_tract ({self.spread:g}) must be at least 0 and below 1")

    def __call__(self, frames: Tensor, num_bands: int) -> Tensor:
        """frames (batch, length, width), where width is a multiple of `num_bands`."""
        factors = 1 + self.spread * (2 * torch.rand(len(frames), dtype=frames.dtype, device=frames.device) - 1)
        bands = frames.unflatten(-1, (-1, num_bands))  # (batch, length, times, bands)
        places = (factors[:, None] * torch.arange(num_bands, dtype=frames.dtype, device=frames.device)).clamp(
            max=num_bands - 1
        )
        low = places.floor().long()
        high = (low + 1).clamp(max=num_bands - 1)
        rest = (places - low)[:, None, None]
        below, above = (bands.gather(-1, index[:, None, None].expand_as(bands)) for index in (low, high))
        warped: Tensor = below * (1 - rest) + above * rest
        return warped.flatten(-2)
