"""Resampling against the direct sum, and by its purpose: tones are unchanged, and frequencies above the new Nyquist
frequency are removed."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.data.sounds.resampling import ATTENUATION, FEW, TOGETHER, resample
from tests.references import resampling as reference
from tests.references.agreement import randn

PAIRS = [(8000, 16_000), (16_000, 8000), (44_100, 16_000), (48_000, 44_100), (8000, 11_025)]
every_pair = pytest.mark.parametrize(("from_rate", "to_rate"), PAIRS)


@pytest.mark.parametrize(("from_rate", "to_rate"), [(1, 2), (2, 1), (3, 2), (5, 7), (7, 3), (4, 1), (1, 6)])
def test_resampling_equals_the_direct_sum(from_rate: int, to_rate: int) -> None:
    samples = randn(25, seed=from_rate)
    expected = reference.resample(samples.numpy(), from_rate, to_rate, 12, ATTENUATION)
    actual = resample(samples, from_rate, to_rate, zeros=12)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-10, atol=1e-12)
    assert len(actual) == math.ceil(25 * to_rate / from_rate)
    torch.testing.assert_close(
        resample(samples.float(), 10 * from_rate, 10 * to_rate, zeros=12), actual.float(), rtol=1e-4, atol=1e-5
    )


def test_many_phases_and_long_sounds_equal_the_direct_sum() -> None:
    """First more phases than are computed at once, with too few products per phase for a convolution; then the
    opposite."""
    assert TOGETHER < 300
    samples = randn(310, seed=1)
    expected = reference.resample(samples.numpy(), 301, 300, 6, ATTENUATION)
    np.testing.assert_allclose(resample(samples, 301, 300, zeros=6).numpy(), expected, rtol=1e-10, atol=1e-12)
    long = randn(FEW // 16, seed=2)
    whole = resample(long, 2, 3)
    part = resample(long[:800], 2, 3)
    torch.testing.assert_close(part[:900], whole[:900], rtol=1e-10, atol=1e-12)


def tone(rate: int, frequency: float, seconds: float = 0.25) -> Tensor:
    return torch.sin(2 * math.pi * frequency * torch.arange(int(rate * seconds), dtype=torch.float64) / rate)


def middle(samples: Tensor) -> Tensor:
    """The sound without its ends, which the silence around it affects."""
    return samples[len(samples) // 4 : -len(samples) // 4]


@every_pair
@pytest.mark.parametrize("share", [0.01, 0.4, 0.9])
def test_a_tone_keeps_its_frequency_and_amplitude(from_rate: int, to_rate: int, share: float) -> None:
    """Up to 92 % of the lower Nyquist frequency, to less than -80 dB, and -60 dB in float32."""
    frequency = share * min(from_rate, to_rate) / 2
    actual, expected = resample(tone(from_rate, frequency), from_rate, to_rate), tone(to_rate, frequency)
    error = middle(
        actual - expected[: len(actual)] if len(actual) <= len(expected) else actual[: len(expected)] - expected
    )
    assert decibels(error) < -ATTENUATION + 6
    single = resample(tone(from_rate, frequency).float(), from_rate, to_rate)
    assert decibels(middle(single.double() - actual)) < -100


@pytest.mark.parametrize(("from_rate", "to_rate"), [pair for pair in PAIRS if pair[0] > pair[1]])
def test_frequencies_above_the_lower_nyquist_frequency_are_removed(from_rate: int, to_rate: int) -> None:
    """At least 60 dB below the input, from the Nyquist frequency on."""
    frequencies = np.linspace(to_rate / 2, from_rate / 2, 9, endpoint=False)
    assert max(decibels(middle(resample(tone(from_rate, each), from_rate, to_rate))) for each in frequencies) < -75


@pytest.mark.parametrize(("from_rate", "to_rate"), [pair for pair in PAIRS if pair[0] < pair[1]])
def test_no_image_of_a_tone_appears_above_the_old_rate(from_rate: int, to_rate: int) -> None:
    actual = middle(resample(tone(from_rate, 0.4 * from_rate), from_rate, to_rate))
    window = torch.hann_window(len(actual), dtype=torch.float64)
    spectrum = torch.fft.rfft(actual * window).abs()
    frequencies = torch.arange(len(spectrum)) * to_rate / len(actual)
    assert decibels(spectrum[frequencies > 0.6 * from_rate] / spectrum.max()) < -60
    assert float(frequencies[spectrum.argmax()]) == pytest.approx(0.4 * from_rate, abs=to_rate / len(actual))


def test_resampling_up_and_down_restores_the_sound() -> None:
    speech = resample(randn(500, seed=4), 1, 4)  # nothing above a quarter of the Nyquist frequency
    restored = resample(resample(speech, 8000, 44_100), 44_100, 8000)[: len(speech)]
    assert decibels(middle(restored - speech)) < -70


def test_rows_are_resampled_independently_with_gradients() -> None:
    rows = randn(2, 3, 40)
    together = resample(rows, 3, 2, zeros=6)
    torch.testing.assert_close(together[1, 2], resample(rows[1, 2], 3, 2, zeros=6), rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda x: resample(x, 3, 2, zeros=6), randn(12).requires_grad_())


def test_the_same_rate_changes_nothing_and_rates_may_be_fractions() -> None:
    samples = randn(30)
    assert resample(samples, 8000, 8000) is samples
    assert torch.equal(resample(samples, Fraction(1, 2), Fraction(3, 4)), resample(samples, 2, 3))
    assert resample(samples[:0], 2, 3).shape == (0,)


def test_invalid_rates_are_rejected() -> None:
    samples = randn(30)
    for rate in (0, -8000, 44.1, True):
        with pytest.raises(UserError, match=rf"from_rate \({rate}\) must be a whole number or a Fraction above 0"):
            resample(samples, rate, 8000)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"zeros \(5\) must be at least 6"):
        resample(samples, 1, 2, zeros=5)
    with pytest.raises(UserError, match="samples must be floats to be resampled, not torch.int64; convert them first"):
        resample(torch.arange(9), 1, 2)
    with pytest.raises(UserError, match="300,000,000,000,000 samples at a rate of 10000000000000 would need"):
        resample(samples, 1, 10**13)


def decibels(samples: Tensor) -> float:
    return 20 * math.log10(float(samples.abs().max()) + 1e-300)
