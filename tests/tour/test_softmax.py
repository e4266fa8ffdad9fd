"""The softmax with and without scaling."""

import numpy as np
import pytest
import torch

from clew.tour.softmax import KEYS, drawn_scores, jacobian_norms, run, spread_of


def test_the_gradient_of_the_softmax_equals_autograd() -> None:
    scores = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert jacobian_norms(scores.softmax(-1)).item() == pytest.approx(jacobian.norm().item())


def test_equal_weights_have_the_gradient_by_hand_and_a_certain_weight_none() -> None:
    assert jacobian_norms(torch.full((4,), 0.25)).item() == pytest.approx(np.sqrt(3) / 4)
    assert jacobian_norms(torch.tensor([0.0, 1.0, 0.0])).item() == 0


def test_both_scores_use_the_same_queries_and_keys() -> None:
    plain, scaled = (drawn_scores(name, 16, 3, 7) for name in ("dot", "scaled"))
    assert plain.shape == (3, KEYS)
    torch.testing.assert_close(plain / 4, scaled)


def test_scaling_keeps_the_variance_and_the_gradient_of_wide_heads() -> None:
    wide, narrow = (spread_of(drawn_scores("scaled", width, 60, 0)) for width in (256, 4))
    assert wide.variance == pytest.approx(narrow.variance, rel=0.3)
    assert spread_of(drawn_scores("dot", 256, 60, 0)).gradient < 0.5 * wide.gradient


def test_the_findings_text_states_its_rows() -> None:
    finding = run("quick", 0, lambda line: None)
    plain, scaled = finding.rows[0][2].split(" and ")
    assert f"{plain}, scaled {scaled}" in finding.measured
    assert finding == run("quick", 0, lambda line: None)
