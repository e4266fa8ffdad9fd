"""Masks stretches of time and bands of frequency in training frames. Knows no sound."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clew.core.errors import UserError


@dataclass(frozen=True)
class SpecAugment:
    """SpecAugment (Park et al. 2019).

    Each of `time_masks` hides t frames from t0 on, t ~ U{0 .. min(longest, share * tau)} and t0 ~ U{0 .. tau - t},
    where tau is the length of the row; each of `frequency_masks` hides f bands from f0 on, f ~ U{0 .. widest} and f0 ~
    U{0 .. bands - f}. Hidden values become the row's mean of that feature. With `warp`, the frame c ~ U{warp .. tau -
    warp - 1} is first moved by w ~ U(-warp, warp), and the frames before and after it are stretched or squeezed by
    linear interpolation; rows of less than 2 warp + 2 frames stay. No row changes its length, and padding is neither
    used nor changed. Draws come from torch's generator, as in dropout.
    """

    time_masks: int = 2
    longest: int = 40
    share: float = 1.0
    frequency_masks: int = 2
    widest: int = 15
    warp: int = 0

    def __post_init__(self) -> None:
        least = min(self.time_masks, self.longest, self.frequency_masks, self.widest, self.warp)
        if least < 0 or not 0 <= self.share <= 1:
            raise UserError(
                f"masks and their widths must be 0 or more ({least}), and share ({self.share:g}) from 0 to 1"
            )

    def __call__(self, frames: Tensor, lengths: Tensor, num_bands: int) -> Tensor:
        """frames (batch, length, width), where width is a multiple of `num_bands`; `lengths` are those of the rows."""
        batch, length, width = frames.shape
        real = torch.arange(length, device=frames.device) < lengths[:, None]  # (batch, length)
        if self.warp:
            frames = torch.where(real[..., None], self.warped(frames, lengths), frames)
        limits = (self.share * lengths).long().clamp(max=self.longest)
        in_time = drawn_masks(self.time_masks, limits, lengths, length)  # (batch, length)
        bands = torch.full_like(lengths, num_bands)
        # (batch, num_bands)
        in_frequency = drawn_masks(self.frequency_masks, bands.clamp(max=self.widest), bands, num_bands)
        hidden = in_time[:, :, None] | in_frequency.repeat(1, width // num_bands)[:, None]  # (batch, length, width)
        total = frames.masked_fill(~real[..., None], 0.0).sum(1, keepdim=True)
        mean = total / lengths.clamp(min=1)[:, None, None]
        return torch.where(hidden & real[..., None], mean, frames)

    def warped(self, frames: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(frames.shape[1], dtype=frames.dtype, device=frames.device)
        chance = torch.rand(2, len(lengths), 1, dtype=frames.dtype, device=frames.device)
        last = lengths[:, None].to(frames.dtype) - 1
        centre = (self.warp + chance[0] * (last + 1 - 2 * self.warp)).floor()
        moved = centre + (2 * chance[1] - 1) * self.warp
        before, behind = places * centre / moved, centre + (places - moved) * (last - centre) / (last - moved)
        source = torch.where(places <= moved, before, behind)  # (batch, length)
        source = torch.where(last >= 2 * self.warp + 1, source, places).clamp(min=0).minimum(last.clamp(min=0))
        low = source.floor()
        rest = (source - low)[..., None]
        low, high = (index.long()[..., None].expand_as(frames) for index in (low, (low + 1).minimum(last.clamp(min=0))))
        return frames.gather(1, low) * (1 - rest) + frames.gather(1, high) * rest


def drawn_masks(count: int, limits: Tensor, sizes: Tensor, length: int) -> Tensor:
    """Whether each position (batch, length) is in any of `count` masks of its row, up to `limits` wide and within
    `sizes` (batch,)."""
    chance = torch.rand(2, len(sizes), count, device=sizes.device, dtype=torch.float64)
    widths = (chance[0] * (limits[:, None] + 1)).floor().minimum(limits[:, None].double())
    starts = (chance[1] * (sizes[:, None] - widths + 1)).floor().minimum(sizes[:, None] - widths)
    places = torch.arange(length, device=sizes.device)[:, None]
    return ((places >= starts[:, None]) & (places < (starts + widths)[:, None])).any(-1)
