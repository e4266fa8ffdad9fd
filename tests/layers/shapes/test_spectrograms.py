"""Convolutions over frames and bands, against loops in NumPy float64."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.layers.shapes.spectrograms import SpectrogramConvolution
from tests.references.agreement import randn


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """relu(C x + b) of x (channels, frames, bands), with zero padding."""
    reach = weight.shape[2] // 2
    output = np.zeros((len(weight), *x.shape[1:]))
    for channel in range(len(weight)):
        for t in range(x.shape[1]):
            for f in range(x.shape[2]):
                total = bias[channel]
                for i in range(-reach, reach + 1):
                    for j in range(-reach, reach + 1):
                        if 0 <= t + i < x.shape[1] and 0 <= f + j < x.shape[2]:
                            total += (weight[channel, :, i + reach, j + reach] * x[:, t + i, f + j]).sum()
                output[channel, t, f] = max(total, 0.0)
    return output


def largest(x: np.ndarray, frames: int, bands: int) -> np.ndarray:
    output = np.zeros((len(x), x.shape[1] // frames, x.shape[2] // bands))
    for t in range(output.shape[1]):
        for f in range(output.shape[2]):
            output[:, t, f] = x[:, t * frames : (t + 1) * frames, f * bands : (f + 1) * bands].max((1, 2))
    return output


@pytest.mark.parametrize(("bands", "stack", "parts"), [(8, 1, 1), (9, 3, 1), (4, 2, 3)])
def test_the_module_equals_its_equation_for_each_row(bands: int, stack: int, parts: int) -> None:
    torch.manual_seed(0)
    module = SpectrogramConvolution(bands, 3, stack=stack, parts=parts).double()
    lengths = torch.tensor([5, 3, 1])
    x = randn(3, 5, stack * parts * bands)
    actual = module(x, lengths).detach().numpy()
    assert actual.shape == (3, 5, module.width)
    weights = [parameter.detach().numpy() for parameter in module.parameters()]
    for row, length in enumerate(lengths.tolist()):
        frames = x[row, :length].numpy().reshape(length * stack, parts, bands).transpose(1, 0, 2)
        h = largest(convolved(frames, *weights[:2]), 1, 2)
        y = largest(convolved(h, *weights[2:]), stack, 2)  # (channels, positions, bands)
        np.testing.assert_allclose(
            actual[row, :length], y.transpose(1, 0, 2).reshape(length, -1), rtol=1e-9, atol=1e-12
        )


def test_without_lengths_all_frames_are_real() -> None:
    module = SpectrogramConvolution(8, 2, stack=2).double()
    x = randn(2, 4, 16)
    torch.testing.assert_close(module(x), module(x, torch.tensor([4, 4])))


def test_too_few_bands_are_rejected() -> None:
    with pytest.raises(UserError, match="halves them twice, and there are 3; read at least 4"):
        SpectrogramConvolution(3, 2)
