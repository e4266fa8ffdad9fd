"""Kernel regression as attention."""

import numpy as np
import pytest
import torch

from clew.tour.kernel import BANDWIDTH, KernelRegression, Sample, kernel_mean, run


def reference(x: np.ndarray, keys: np.ndarray, values: np.ndarray, bandwidth: float) -> np.ndarray:
    """The formula of Nadaraya and Watson, position by position."""
    predictions = []
    for place in x:
        kernels = [np.exp(-0.5 * ((place - key) / bandwidth) ** 2) for key in keys]
        predictions.append(sum(k * v for k, v in zip(kernels, values, strict=True)) / sum(kernels))
    return np.array(predictions)


@pytest.mark.parametrize("bandwidth", [0.4, 1.0, 3.0])
def test_attention_over_lifted_keys_equals_the_kernel_formula(bandwidth: float) -> None:
    source = torch.Generator().manual_seed(3)
    points = Sample(torch.rand(9, generator=source), torch.randn(9, generator=source))
    x = torch.linspace(-1, 2, 7)
    expected = reference(*(part.double().numpy() for part in (x, *points)), bandwidth)
    with torch.no_grad():
        torch.testing.assert_close(
            KernelRegression(bandwidth).read(x, points).double(), torch.tensor(expected), atol=2e-5, rtol=0
        )
    torch.testing.assert_close(kernel_mean(x, points, bandwidth).double(), torch.tensor(expected), atol=2e-5, rtol=0)


def test_the_loss_never_predicts_a_point_from_itself() -> None:
    """Of two points, each is predicted by the other one's value with any bandwidth."""
    points = Sample(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 5.0]))
    terms, _ = KernelRegression()(points)
    assert (terms["loss"].sum / terms["loss"].count).item() == pytest.approx(9.0)


def test_a_learnt_bandwidth_fits_the_curve_better() -> None:
    finding = run("quick", 0, lambda line: None)
    flat, fixed, learnt = map(float, finding.rows[1][2].split(", "))
    assert learnt < fixed < flat
    assert finding.view.facts["apart"] < 1e-5
    assert f"from {BANDWIDTH:g} to" in finding.measured
