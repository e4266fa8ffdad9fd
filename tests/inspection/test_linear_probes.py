import pytest
import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.inspection.linear_probes import UNKNOWN_LABEL, Probe, accuracy, fit_probe

Parts = dict[str, Tensor]


def drawn(seed: int = 0, sizes: tuple[int, int, int] = (120, 60, 60), dim: int = 6) -> tuple[Parts, Parts]:
    """Vectors with labels that a plane through them tells apart, in units that differ by feature."""
    generator = torch.Generator().manual_seed(seed)
    x = {
        part: torch.randn(size, dim, generator=generator)
        for part, size in zip(("train", "valid", "test"), sizes, strict=True)
    }
    plane = torch.randn(dim, 3, generator=generator)
    labels = {part: (each @ plane).argmax(-1) for part, each in x.items()}
    return {part: each * torch.logspace(-3, 3, dim) + 7 for part, each in x.items()}, labels


def test_what_a_plane_parts_is_told_and_noise_is_not() -> None:
    features, labels = drawn()
    found = fit_probe(features, labels, 3)
    assert found.accuracy > 90 and found.l2 < 0.1
    noise, _ = drawn(seed=1)
    assert fit_probe(noise, labels, 3).accuracy < 60
    assert fit_probe(features, labels, 3) == found


@pytest.mark.parametrize("is_rare", [False, True], ids=["labels alike", "a label rare"])
def test_a_probe_is_where_the_cost_has_no_slope(is_rare: bool) -> None:
    features, labels = drawn()
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
        features, labels = drawn(seed, sizes=(60, 1, 1))
        x = (features["train"] - features["train"].mean(0)) / features["train"].std(0)
        probe = Probe(x, labels["train"], 3)
        probe.fit(1.0)
        errors = probe.logits(x).softmax(-1) - torch.nn.functional.one_hot(labels["train"], 3)
        slopes.append((x.mT @ errors / len(x) + probe.weight).abs().max())
    assert max(slopes) < 2e-5  # where the cost ends in its seventh digit, slopes are as large as 2e-4


@pytest.mark.slow
def test_a_learned_mix_looks_at_the_level_that_knows() -> None:
    features, labels = drawn()
    other, _ = drawn(seed=2)
    constant = {part: torch.ones_like(each) for part, each in features.items()}
    levels = {part: torch.stack([other[part], features[part], constant[part]]) for part in features}
    found = fit_probe(levels, labels, 3)
    assert len(found.weights) == 3 and sum(found.weights) == pytest.approx(1)
    assert found.weights[1] > 0.7 and found.accuracy > 85


def test_what_was_never_seen_is_never_told_and_what_is_no_number_refused() -> None:
    assert accuracy(torch.eye(4), torch.tensor([0, 1, 2, UNKNOWN_LABEL])) == 75
    features, labels = drawn()
    with pytest.raises(
        UserError, match="every training example has the same label, so there is nothing for a probe to learn"
    ):
        fit_probe(features, labels, 1)
    broken = {part: x.where(x < x.max(), float("nan")) for part, x in features.items()}
    with pytest.raises(
        UserError, match="the vectors have non-finite numbers, as in a model whose training has diverged"
    ):
        fit_probe(broken, labels, 3)
