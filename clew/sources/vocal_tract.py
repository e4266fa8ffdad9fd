"""Speakers of other sizes made of those that are heard: the frequency axis of frames warped, as training reads them. Knows no sound."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clew.core.errors import UserError


@dataclass(frozen=True)
class VocalTract:
    """Vocal tract length perturbation (Jaitly and Hinton 2013), on log-mel bands.

        y_t[j] = x_t[a j],    a ~ U(1 - spread, 1 + spread), one a row

    x between bands is interpolated linearly, and above the last band it is that band. A short vocal tract has its formants higher, so that
    a below 1 is a smaller speaker. Draws are those of torch's generator, as dropout's are.
    """

    spread: float

    def __post_init__(self) -> None:
        if not 0 <= self.spread < 1:
            raise UserError(f"vocal_tract ({self.spread:g}) must be at least 0 and below 1")

    def __call__(self, frames: Tensor, num_bands: int) -> Tensor:
        """frames (batch, length, width), their width being any number of times `num_bands`."""
        factors = 1 + self.spread * (2 * torch.rand(len(frames), dtype=frames.dtype, device=frames.device) - 1)
        bands = frames.unflatten(-1, (-1, num_bands))  # (batch, length, times, bands)
        places = (factors[:, None] * torch.arange(num_bands, dtype=frames.dtype, device=frames.device)).clamp(max=num_bands - 1)
        low = places.floor().long()
        high = (low + 1).clamp(max=num_bands - 1)
        rest = (places - low)[:, None, None]
        below, above = (bands.gather(-1, index[:, None, None].expand_as(bands)) for index in (low, high))
        warped: Tensor = below * (1 - rest) + above * rest
        return warped.flatten(-2)
