import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clew.core.errors import UserError
from clew.metrics.calibration import calibration, calibration_interval, fit_temperature


def examples(count=300, labels=4, seed=0):
    """Logits, and targets sampled from their softmax, as from a perfectly calibrated classifier."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, labels, dtype=torch.float64, generator=generator)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]


def test_the_error_equals_a_hand_computed_one():
    """Two examples at 0.6 with one right, one at 0.9 that is wrong: (2 * 0.1 + 1 * 0.9) / 3."""
    probabilities = torch.tensor([[0.6, 0.4], [0.4, 0.6], [0.9, 0.1]], dtype=torch.float64)
    result = calibration(probabilities, torch.tensor([0, 0, 1]), num_bins=10)
    assert result.counts == (0, 0, 0, 0, 0, 2, 0, 0, 1, 0)  # a bin holds its upper end
    assert result.expected_error == pytest.approx(1.1 / 3)
    assert result.describe() == "calibration error 36.67, confidence 70.00, accuracy 33.33"


def test_a_confident_and_correct_classifier_has_no_error():
    assert calibration(torch.eye(3), torch.arange(3)).expected_error == 0


def test_with_one_bin_the_error_is_confidence_minus_accuracy():
    logits, targets = examples()
    probabilities = logits.softmax(1)
    expected = abs(float((probabilities.argmax(1) == targets).double().mean() - probabilities.max(1).values.mean()))
    assert calibration(probabilities, targets, num_bins=1).expected_error == pytest.approx(expected)


def test_parts_add():
    logits, targets = examples()
    probabilities = logits.softmax(1)
    parts = calibration(probabilities[:100], targets[:100]) + calibration(probabilities[100:], targets[100:])
    whole = calibration(probabilities, targets)
    assert (parts.counts, parts.right) == (whole.counts, whole.right)
    assert parts.expected_error == pytest.approx(whole.expected_error)


def test_an_interval_equals_resampling_examples():
    logits, targets = examples(100)
    probabilities = logits.softmax(1)
    rng = np.random.default_rng(0)
    values = []
    for _ in range(1000):
        places = torch.from_numpy(rng.integers(100, size=100))
        values.append(calibration(probabilities[places], targets[places]).expected_error)
    np.testing.assert_allclose(
        calibration_interval(probabilities, targets), np.quantile(values, [0.025, 0.975]), atol=0.01
    )


def test_the_temperature_recovers_the_factor_of_the_logits():
    logits, targets = examples(5000)
    once = fit_temperature(logits, targets)
    assert once == pytest.approx(1, abs=0.05)
    assert fit_temperature(3 * logits, targets) == pytest.approx(3 * once, rel=1e-9)


def test_no_other_temperature_has_a_lower_loss():
    logits, targets = examples(50)
    best = fit_temperature(logits, targets)
    losses = [
        float(F.cross_entropy(logits / temperature, targets)) for temperature in (best, 0.999 * best, 1.001 * best)
    ]
    assert losses[0] < min(losses[1:])


def test_the_temperature_equals_a_hand_computed_one():
    """Two labels, three of four right with the logit 1: 1 / T is log 3."""
    assert fit_temperature(torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])) == pytest.approx(1 / math.log(3))


def test_smoothed_targets_prevent_certainty_from_few_examples():
    """Four of four right with the logit 1; half of a smoothing of 1/6 goes to the other label: the odds are 11 to 1."""
    temperature = fit_temperature(torch.tensor([[1.0, 0.0]] * 4), torch.zeros(4, dtype=torch.long), smoothing=1 / 6)
    assert temperature == pytest.approx(1 / math.log(11))


def test_without_a_best_temperature_the_limit_is_used():
    sure = torch.tensor([[5.0, 0.0], [0.0, 5.0]])
    assert fit_temperature(sure, torch.tensor([0, 1])) == pytest.approx(0.01)
    assert fit_temperature(sure, torch.tensor([1, 0])) == pytest.approx(100)
    assert fit_temperature(torch.zeros(2, 2), torch.tensor([0, 1])) == 1


def test_invalid_inputs_are_rejected_with_a_sentence():
    with pytest.raises(UserError, match=r"targets \(2,\) must be \(examples,\) for \(3, 2\) of \(examples, labels\)"):
        calibration(torch.ones(3, 2), torch.zeros(2))
    with pytest.raises(UserError, match=r"num_bins \(0\) must be at least 1"):
        calibration(torch.ones(1, 2), torch.zeros(1), num_bins=0)
    with pytest.raises(UserError, match="calibrations of 5 and 9 bins cannot be added; give both the same num_bins"):
        calibration(torch.ones(1, 2), torch.zeros(1), num_bins=5) + calibration(
            torch.ones(1, 2), torch.zeros(1), num_bins=9
        )
    with pytest.raises(UserError, match="calibration needs at least one example"):
        fit_temperature(torch.ones(0, 2), torch.zeros(0, dtype=torch.long))
