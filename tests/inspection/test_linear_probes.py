import pytest
import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.inspection.linear_probes import UNKNOWN_LABEL, Probe, accuracy, fit_probe

Parts = dict[str, Tensor]


def random_features(seed: int = 0, sizes: tuple[int, int, int] = (120, 60, 60), dim: int = 6) -> tuple[Parts, Parts]:
    """Vectors with labels that are linearly separable, in different units per feature."""
    generator = torch.Generator().manual_seed(seed)
    x = {
        part: torch.randn(size, dim, generator=generator)
        for part, size in zip(("train", "valid", "test"), sizes, strict=True)
    }
    plane = torch.randn(dim, 3, generator=generator)
    labels = {part: (each @ plane).argmax(-1) for part, each in x.items()}
    return {part: each * torch.logspace(-3, 3, dim) + 7 for part, each in x.items()}, labels


def test_a_probe_learns_linearly_separable_labels_and_not_noise() -> None:
    features, labels = random_features()
    probe = fit_probe(features, labels, 3)
    assert probe.accuracy > 90 and probe.l2 < 0.1
    noise, _ = random_features(seed=1)
    assert fit_probe(noise, labels, 3).accuracy < 60
    assert fit_probe(features, labels, 3) == probe


@pytest.mark.parametrize("is_rare", [False, True], ids=["labels alike", "a label rare"])
def test_a_fitted_probe_has_zero_gradient(is_rare: bool) -> None:
    features, labels = random_features()
    y = labels["train"].where(torch.arange(120) % 20 == 0, labels["train"] % 2) if is_rare else labels["train"]
    x = (features["train"] - features["train"].mean(0)) / features["train"].std(0)
    probe, wide = Probe(x, y, 3), x.double()
    for l2 in (1.0, 0.1, 0.01, 0.001):
        probe.fit(l2)
        weight, bias = probe.weight.double(), probe.bias.double()
        errors = (wide @ weight + bias).softmax(-1) - torch.nn.functional.one_hot(y, 3)
        assert (wide.mT @ errors / len(x) + l2 * weight).abs().max() < 2e-5
        assert errors.mean(0).abs().max() < 2e-5 and not probe.weight.requires_grad


def test_costs_that_round_to_the_same_number_do_not_end_a_fit() -> None:
    slopes = []
    for seed in range(20):
        features, labels = random_features(seed, sizes=(60, 1, 1))
        x = (features["train"] - features["train"].mean(0)) / features["train"].std(0)
        probe = Probe(x, labels["train"], 3)
        probe.fit(1.0)
        errors = probe.logits(x).softmax(-1) - torch.nn.functional.one_hot(labels["train"], 3)
        slopes.append((x.mT @ errors / len(x) + probe.weight).abs().max())
    assert max(slopes) < 2e-5  # when the cost stalls in its seventh digit, gradients can be 2e-4


@pytest.mark.slow
def test_a_learned_mix_weights_the_informative_level() -> None:
    features, labels = random_features()
    noise, _ = random_features(seed=2)
    constant = {part: torch.ones_like(each) for part, each in features.items()}
    levels = {part: torch.stack([noise[part], features[part], constant[part]]) for part in features}
    probe = fit_probe(levels, labels, 3)
    assert len(probe.weights) == 3 and sum(probe.weights) == pytest.approx(1)
    assert probe.weights[1] > 0.7 and probe.accuracy > 85


def test_unknown_labels_count_as_wrong_and_single_labels_and_nan_are_rejected() -> None:
    assert accuracy(torch.eye(4), torch.tensor([0, 1, 2, UNKNOWN_LABEL])) == 75
    features, labels = random_features()
    with pytest.raises(
        UserError,
        match="every training example has the same label, so there is nothing for a probe to learn; read more of them",
    ):
        fit_probe(features, labels, 1)
    broken = {part: x.where(x < x.max(), float("nan")) for part, x in features.items()}
    with pytest.raises(
        UserError,
        match="the vectors have non-finite numbers, as in a model whose training has diverged; use another run",
    ):
        fit_probe(broken, labels, 3)
