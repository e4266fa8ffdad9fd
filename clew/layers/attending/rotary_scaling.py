"""Scaled rotary positions, for texts longer than those a model was first trained on.

Plain rotary positions rotate pair k by i f_k at position i. A scaling changes these angles, and may multiply queries
and keys by a `factor`. Members of SCALINGS are built as `S(head_dim, base, *, options)`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from clew.core.errors import UserError


class Scaling:
    """a = i f, the plain angles."""

    factor = 1.0

    def __init__(self, head_dim: int, base: float):
        self.head_dim = head_dim
        self.base = base

    @property
    def is_plain(self) -> bool:
        """Whether the angles are the positions times the frequencies, and queries and keys keep their length."""
        return self.factor == 1.0 and type(self).angles is Scaling.angles

    def angles(self, positions: Tensor, frequencies: Tensor) -> Tensor:
        """positions (..., 1) times frequencies (pairs,)."""
        return positions * self.scaled(frequencies)

    def scaled(self, frequencies: Tensor) -> Tensor:
        return frequencies


class Linear(Scaling):
    """f' = f / factor: positions move closer together (Chen et al. 2023)."""

    def __init__(self, head_dim: int, base: float, *, factor: float = 2.0):
        super().__init__(head_dim, base)
        self.stretch = at_least_1("linear", factor)

    def scaled(self, frequencies: Tensor) -> Tensor:
        return frequencies / self.stretch


class Dynamic(Scaling):
    """f' = f / s^(2k / (d - 2)),  s = factor max(n, L) / L - (factor - 1),  L = original_max_length: the base grows
    with the length n.

    n is each position's own number, counted from 1, not the length of the text: rotated keys are cached, and a text
    read in chunks must be read like the whole. Programs that use the length of the text agree up to L, and beyond it
    when they read token by token.
    """

    def __init__(self, head_dim: int, base: float, *, factor: float = 2.0, original_max_length: int = 2048):
        super().__init__(head_dim, base)
        self.stretch = at_least_1("dynamic", factor)
        self.original_max_length = a_length("dynamic", original_max_length)

    def angles(self, positions: Tensor, frequencies: Tensor) -> Tensor:
        length = (positions + 1).clamp(min=self.original_max_length)
        growth = self.stretch * length / self.original_max_length - (self.stretch - 1)
        exponents = 2 * torch.arange(len(frequencies), device=frequencies.device) / max(self.head_dim - 2, 1)
        return positions * frequencies * growth**-exponents


class Llama3(Scaling):
    """Llama 3.1 (Grattafiori et al. 2024), by the number r of full turns of a pair within the original length L:

    r  = L f / (2 pi)
    m  = clip((r - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    f' = m f + (1 - m) f / factor
    """

    def __init__(
        self,
        head_dim: int,
        base: float,
        *,
        factor: float = 8.0,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        original_max_length: int = 8192,
    ):
        super().__init__(head_dim, base)
        if not 0 < low_freq_factor < high_freq_factor:
            raise UserError(
                f"rotary scaling 'llama3' needs 0 < low_freq_factor ({low_freq_factor:g}) < high_freq_factor"
                f" ({high_freq_factor:g})"
            )
        self.stretch = at_least_1("llama3", factor)
        self.low, self.high = low_freq_factor, high_freq_factor
        self.original_max_length = a_length("llama3", original_max_length)

    def scaled(self, frequencies: Tensor) -> Tensor:
        turns = self.original_max_length * frequencies / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * frequencies + (1 - kept) * frequencies / self.stretch


class YaRN(Scaling):
    """YaRN (Peng et al. 2023): fast pairs keep their frequency, slow pairs are stretched, with a ramp between them.

        c(r) = d ln(L / (2 pi r)) / (2 ln base)                 the pair with r full turns in L = original_max_length
        m_k  = 1 - clip((k - low) / (high - low), 0, 1),        low = c(fast_turns), high = c(slow_turns)
        f'   = m f + (1 - m) f / factor

    Queries and keys are multiplied by 0.1 ln(factor) + 1, or by `attention_factor`. `rounded`, as released, rounds low
    down and high up to integers.
    """

    def __init__(
        self,
        head_dim: int,
        base: float,
        *,
        factor: float = 16.0,
        original_max_length: int = 4096,
        fast_turns: float = 32.0,
        slow_turns: float = 1.0,
        attention_factor: float | None = None,
        rounded: bool = True,
    ):
        super().__init__(head_dim, base)
        if not 0 < slow_turns < fast_turns:
            raise UserError(
                f"rotary scaling 'yarn' needs 0 < slow_turns ({slow_turns:g}) < fast_turns ({fast_turns:g})"
            )
        if base <= 1:
            raise UserError(f"rotary scaling 'yarn' needs a rotary base above 1, not {base:g}; set one such as 10000")
        self.stretch = at_least_1("yarn", factor)
        self.original_max_length = a_length("yarn", original_max_length)
        self.factor = 0.1 * math.log(factor) + 1 if attention_factor is None else attention_factor
        low, high = (self.pair_with(turns) for turns in (fast_turns, slow_turns))
        if rounded:
            low, high = math.floor(low), math.ceil(high)
        self.low, self.high = max(low, 0), min(high, head_dim - 1)

    def pair_with(self, turns: float) -> float:
        return self.head_dim * math.log(self.original_max_length / (2 * math.pi * turns)) / (2 * math.log(self.base))

    def scaled(self, frequencies: Tensor) -> Tensor:
        pairs = torch.arange(len(frequencies), device=frequencies.device, dtype=torch.float32)
        width = self.high - self.low or 0.001  # an empty ramp becomes a step
        kept = 1 - ((pairs - self.low) / width).clamp(0, 1)
        return kept * frequencies + (1 - kept) * frequencies / self.stretch


def at_least_1(name: str, factor: float) -> float:
    if factor < 1:
        raise UserError(f"rotary scaling '{name}' stretches positions, so its factor ({factor:g}) must be at least 1")
    return factor


def a_length(name: str, length: int) -> int:
    if length < 1:
        raise UserError(f"rotary scaling '{name}' needs an original_max_length of at least 1, not {length}")
    return length


SCALINGS: dict[str, Callable[..., Scaling]] = {
    "none": Scaling,
    "linear": Linear,
    "dynamic": Dynamic,
    "llama3": Llama3,
    "yarn": YaRN,
}
