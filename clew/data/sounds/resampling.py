"""Resamples sounds with a windowed sinc, one filter per phase. Knows no file."""

import math
from fractions import Fraction
from numbers import Rational

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError
from clew.core.memory import check_memory

ATTENUATION = 80.0
"""Attenuation in decibels of the frequencies above the lower Nyquist frequency."""

LEAST_ZEROS = 6
"""With fewer zero crossings the transition band would be wider than the whole spectrum."""
TOGETHER = 256
"""Phases whose filters are computed at a time."""
FEW = 2**16
"""Up to this many products, a matrix product is faster than a convolution."""


def resample(samples: Tensor, from_rate: int | Fraction, to_rate: int | Fraction, *, zeros: int = 64) -> Tensor:
    """Resample (..., length) to (..., ceil(length to / from)) by band-limited interpolation (Smith and Gossett 1984).

        y_n  = sum_k x_k h(n from / to - k)
        h(t) = c sinc(c t) kaiser(t / T),    |t| < T = zeros / low,    low = min(1, to / from)

    sinc(t) = sin(pi t) / (pi t). The window is Kaiser's (1974), with the beta that gives `ATTENUATION`. Its transition
    band of width w ends at the lower of the two Nyquist frequencies, so c = low (1 - w / 2). With 64 zero crossings on
    either side, frequencies below 92 % of that frequency are kept and those above it are removed. The samples are
    padded with silence on both sides.

    With to / from reduced, n from / to - k has few different fractional parts, called phases. Each phase is a strided
    convolution.
    """
    up, down = ratio(from_rate, to_rate)
    length = samples.shape[-1]
    count = -(-length * up // down)
    if not samples.is_floating_point():
        raise UserError(f"samples must be floats to be resampled, not {samples.dtype}; convert them first")
    if zeros < LEAST_ZEROS:
        raise UserError(f"zeros ({zeros}) must be at least {LEAST_ZEROS}")
    if up == down or not length:
        return samples
    check_memory(
        8 * samples[..., :1].numel() * count, f"{count:,} samples at a rate of {to_rate}", "resample a piece at a time"
    )
    low = min(1.0, up / down)
    reach = math.ceil(zeros / low)
    rows = F.pad(samples.reshape(-1, 1, length), (reach - 1, reach + 1))  # (rows, 1, length)
    resampled = samples.new_empty(len(rows), count)
    taps = torch.arange(reach - 1, -reach - 1, -1, dtype=torch.float64, device=samples.device)
    for first in range(0, min(up, count), TOGETHER):
        phases = torch.arange(first, min(first + TOGETHER, up, count), device=samples.device)
        # (phases, taps)
        filters = sinc_filter(taps + (phases * down % up).double()[:, None] / up, low, zeros).to(samples.dtype)
        starts = phases * down // up  # where each phase's first window begins
        first_start, span = int(starts[0]), int(starts[-1] - starts[0])
        shifted = filters.new_zeros(len(phases), len(taps) + span)
        shifted.scatter_(1, (starts - first_start)[:, None] + torch.arange(len(taps), device=samples.device), filters)
        steps = -(-(count - first) // up)
        needed = F.pad(rows[..., first_start:], (0, span))[..., : (steps - 1) * down + len(taps) + span]
        sums = strided_sums(needed, shifted, down, steps)  # (rows, steps, phases)
        for number in range(len(phases)):
            num_outputs = -(-(count - first - number) // up)
            resampled[:, first + number :: up] = sums[:, :num_outputs, number]
    return resampled.reshape(*samples.shape[:-1], count)


def strided_sums(rows: Tensor, weights: Tensor, stride: int, steps: int) -> Tensor:
    """sum_j x_{stride r + j} w_pj (rows, steps, phases)."""
    if len(rows) * steps * weights.shape[1] <= FEW:
        return rows[:, 0].unfold(1, weights.shape[1], stride) @ weights.mT
    return F.conv1d(rows, weights[:, None], stride=stride).mT


def ratio(from_rate: int | Fraction, to_rate: int | Fraction) -> tuple[int, int]:
    for name, rate in (("from_rate", from_rate), ("to_rate", to_rate)):
        if not isinstance(rate, Rational) or isinstance(rate, bool) or rate <= 0:
            raise UserError(f"{name} ({rate}) must be a whole number or a Fraction above 0")
    return (Fraction(to_rate) / Fraction(from_rate)).as_integer_ratio()


def sinc_filter(t: Tensor, low: float, zeros: int) -> Tensor:
    """The filter h(t)."""
    # Width of the transition band as a fraction of the Nyquist frequency (Kaiser 1974).
    width = (ATTENUATION - 7.95) / (2.285 * 2 * zeros * math.pi)
    cutoff = low * (1 - width / 2)
    beta = 0.1102 * (ATTENUATION - 8.7)
    inside = (1 - (t * low / zeros).square()).clamp(min=0)
    window = torch.special.i0(beta * inside.sqrt()) / torch.special.i0(t.new_tensor(beta))
    return torch.where(inside > 0, cutoff * torch.sinc(cutoff * t) * window, 0.0)
