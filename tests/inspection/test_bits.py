import math

import numpy as np
import pytest
import torch

from clew.inspection.bits import divergence, entropy_bits


def test_entropy_of_a_uniform_choice_is_its_logarithm_and_zeros_add_nothing():
    assert entropy_bits(
        torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]).log()
    ).tolist() == pytest.approx([2.0, 1.0, 0.0])


def test_divergence_worked_by_hand():
    p, q = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]), np.array([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    bits = divergence(*(torch.tensor(each).log() for each in (p, q)))
    assert bits.tolist() == pytest.approx([0.5 * 1 + 0.25 * -1, 1.0])
    assert divergence(torch.tensor(p).log(), torch.tensor(p).log()).tolist() == [0.0, 0.0]


def test_divergence_from_a_zero_probability_is_large_and_finite():
    p, q = torch.tensor([0.5, 0.5]).log(), torch.tensor([1.0, 0.0]).log()
    assert divergence(p, q).item() > 5000 and math.isfinite(divergence(p, q).item())
