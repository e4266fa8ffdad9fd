"""Hard attention and its policy gradient, against the exact expectation over all samples."""

from itertools import product

import pytest
import torch
from torch import nn

from clew.core.taps import Watch, watched, watching
from clew.core.types import Memory
from clew.layers.attending.hard_attention import Draws, HardAttention, Reinforce, find_draws
from clew.layers.attentive import AttentiveCell, Drawing, FeedingCell, Looking
from clew.layers.cells import GRU
from clew.layers.scores import Additive
from tests.references.agreement import randn, randomise

PLACES, STEPS, VOCABULARY = 3, 2, 4


class Writer(nn.Module):
    """A decoder with hard attention and a softmax: log p(y_t | y_<t, sampled places) for one sentence of two words."""

    def __init__(self, form):
        super().__init__()
        score = Additive(4, 3)
        self.layer = {
            "before": lambda: Drawing(AttentiveCell(2, 3, GRU(5, 4), score, attend=HardAttention)),
            "fed": lambda: Drawing(FeedingCell(2, 7, 3, GRU(9, 4), score, attend=HardAttention)),
            "after": lambda: Looking(4, 7, 3, score, attend=HardAttention),
        }[form]()
        self.first = nn.Linear(2, 4) if form == "after" else nn.Identity()
        self.output = nn.Linear(7, VOCABULARY)

    @property
    def attention(self):
        return self.layer.attention if isinstance(self.layer, Looking) else self.layer.cell.attention

    def forward(self, x, memory, targets):
        state = self.layer.initial_state(len(x), memory, like=x)
        y, state = self.layer(self.first(x), None, state)
        return self.output(y).log_softmax(-1).gather(-1, targets[..., None])[..., 0], find_draws(state)


def forced(writer, places):
    """Replace the sampled places by these: one per step in a loop, or all at once."""
    steps = iter(places)

    def take(chosen):
        one_hot = torch.zeros_like(chosen)
        for query in range(chosen.shape[2]):
            one_hot[:, :, query, next(steps)] = 1.0
        return one_hot

    return watched({writer.attention.places: Watch(changes=(take,))})


def gradients(value, writer):
    result = torch.autograd.grad(value, list(writer.parameters()), allow_unused=True, retain_graph=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(writer.parameters(), result, strict=True)]


@pytest.mark.parametrize("form", ["before", "fed", "after"])
@pytest.mark.parametrize("baseline", [-1.4, 3.0])
def test_the_expected_policy_gradient_is_the_gradient_of_the_expectation(form, baseline):
    writer = randomise(Writer(form))
    x, memory, targets = randn(1, STEPS, 2), Memory(randn(1, PLACES, 3, seed=5)), torch.tensor([[2, 0]])
    expected, estimated = 0.0, [torch.zeros_like(p) for p in writer.parameters()]
    total = 0.0
    for places in product(range(PLACES), repeat=STEPS):
        with forced(writer, places):
            log_probs, draws = writer(x, memory, targets)
        probability = draws.log_probs.sum().exp()
        expected = expected + probability * log_probs.sum()
        reinforce = Reinforce(VOCABULARY).double()
        reinforce.baseline.fill_(baseline)
        terms = reinforce(draws, log_probs)
        loss = -log_probs.sum() + terms["policy"].sum
        for mean, gradient in zip(estimated, gradients(loss, writer), strict=True):
            mean -= probability.detach() * gradient
        total += float(probability.detach())
    assert total == pytest.approx(1.0)
    exact = gradients(expected, writer)
    assert any(bool((gradient != 0).any()) for gradient in exact)
    for right, estimate in zip(exact, estimated, strict=True):
        torch.testing.assert_close(estimate, right)


@pytest.mark.parametrize("form", ["before", "fed", "after"])
def test_with_means_instead_of_some_samples_the_expected_estimate_is_exact(form):
    """The objective is p log p(y | means) + (1 - p) E[log p(y | draws)], over all outcomes of the coin and all samples,
    in float64."""
    share = 0.5
    writer = randomise(Writer(form))
    x, memory, targets = randn(1, STEPS, 2), Memory(randn(1, PLACES, 3, seed=5)), torch.tensor([[2, 0]])

    def estimate(log_probs, draws):
        return gradients(-log_probs.sum() + Reinforce(VOCABULARY).double()(draws, log_probs)["policy"].sum, writer)

    writer.attention.expectation = 1.0  # the coin selects the mean
    log_probs, draws = writer(x, memory, targets)
    assert not draws.sampled.any() and not draws.log_probs.any()
    objective, estimated = share * log_probs.sum(), [-share * gradient for gradient in estimate(log_probs, draws)]
    writer.attention.expectation = 0.0  # the coin selects a sample
    for places in product(range(PLACES), repeat=STEPS):
        with forced(writer, places):
            log_probs, draws = writer(x, memory, targets)
        probability = (1 - share) * draws.log_probs.sum().exp()
        objective = objective + probability * log_probs.sum()
        for mean, gradient in zip(estimated, estimate(log_probs, draws), strict=True):
            mean -= probability.detach() * gradient
    for right, estimated_gradient in zip(gradients(objective, writer), estimated, strict=True):
        torch.testing.assert_close(estimated_gradient, right)


@pytest.mark.parametrize("form", ["before", "fed", "after"])
def test_a_row_uses_its_mean_at_every_step_or_at_none(form):
    """Rows for which the coin selects the mean read like soft attention; the others use one place at every step."""
    torch.manual_seed(0)
    writer = randomise(Writer(form))
    writer.attention.expectation = 0.5
    x, memory, targets = randn(400, 3, 2), Memory(randn(400, PLACES, 3, seed=1)), torch.zeros(400, 3, dtype=torch.long)
    output, draws = writer(x, memory, targets)
    means = ~draws.sampled[:, 0]
    assert torch.equal(draws.sampled, draws.sampled[:, :1].expand(-1, 3))
    assert 0.4 < float(means.double().mean()) < 0.6
    writer.attention.expectation = 1.0
    soft, _ = writer(x, memory, targets)
    torch.testing.assert_close(output[means], soft[means])
    assert not torch.isclose(output[~means], soft[~means]).all(1).any()
    assert (
        not draws.log_probs[means].any()
        and bool((draws.log_probs[~means] < 0).all())
        and bool((draws.entropies > 0).all())
    )


def test_evaluation_never_uses_the_mean():
    writer = randomise(Writer("before")).eval()
    writer.attention.expectation = 1.0
    x, memory, targets = randn(2, 3, 2), Memory(randn(2, PLACES, 3, seed=1)), torch.zeros(2, 3, dtype=torch.long)
    output, _ = writer(x, memory, targets)
    writer.attention.expectation = 0.0
    assert torch.equal(output, writer(x, memory, targets)[0])


def test_without_the_policy_term_the_scores_get_no_gradient():
    writer = randomise(Writer("before"))
    log_probs, _ = writer(randn(1, STEPS, 2), Memory(randn(1, PLACES, 3, seed=5)), torch.tensor([[2, 0]]))
    log_probs.sum().backward()
    assert all(p.grad is None for p in writer.attention.parameters())


def test_places_are_sampled_by_their_weights_and_only_real_ones():
    torch.manual_seed(0)
    layer = randomise(Looking(4, 7, 3, Additive(4, 3), attend=HardAttention))
    values, mask = randn(1, PLACES + 1, 3), torch.tensor([[True] * PLACES + [False]])
    x = randn(1, 1, 4).expand(1, 20000, 4)
    recorded = {}
    with watching(
        {
            layer.attention.weights: lambda w: recorded.update(weights=w),
            layer.attention.places: lambda p: recorded.update(places=p),
        }
    ):
        _, state = layer(x, None, layer.initial_state(1, Memory(values, mask), like=x))
    weights, places = recorded["weights"][0, 0, 0], recorded["places"][0, 0]
    torch.testing.assert_close(places.mean(0), weights, atol=0.015, rtol=0)
    assert float(places[:, -1].sum()) == 0.0
    real = weights[:PLACES]
    torch.testing.assert_close(state.draws.entropies[0, 0], -(real * real.log()).sum())
    torch.testing.assert_close(state.draws.log_probs[0], places[:, :PLACES] @ real.log())


def test_evaluation_uses_the_most_likely_place_and_records_no_draws():
    layer = randomise(Looking(4, 7, 3, Additive(4, 3), attend=HardAttention)).eval()
    x, values, recorded = randn(2, 3, 4), randn(2, PLACES, 3, seed=1), {}
    with watching(
        {
            layer.attention.weights: lambda w: recorded.update(weights=w),
            layer.attention.places: lambda p: recorded.update(places=p),
        }
    ):
        _, state = layer(x, None, layer.initial_state(2, Memory(values), like=x))
    assert torch.equal(recorded["places"].argmax(-1), recorded["weights"].argmax(-1))
    assert find_draws(state) is None


def test_samples_are_determined_by_the_seed():
    layer = randomise(Writer("fed"))
    x, memory, targets = randn(4, 6, 2), Memory(randn(4, PLACES, 3, seed=1)), torch.zeros(4, 6, dtype=torch.long)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(x, memory, targets)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_padded_targets_are_ignored():
    reinforce = Reinforce(VOCABULARY).double()
    draws, log_probs = Draws(-randn(2, 4).abs(), randn(2, 4, seed=1).abs()), -randn(2, 4, seed=2).abs()
    mask = torch.arange(4) < torch.tensor([4, 2])[:, None]
    padded = reinforce.eval()(draws, log_probs, mask)
    alone = [
        reinforce(Draws(*(part[r : r + 1, :n] for part in draws[:2])), log_probs[r : r + 1, :n])
        for r, n in enumerate([4, 2])
    ]
    for name, term in padded.items():
        torch.testing.assert_close(term.sum, alone[0][name].sum + alone[1][name].sum)
        assert int(term.count) == 6


def test_the_baseline_is_used_before_it_moves_by_a_tenth():
    reinforce = Reinforce(VOCABULARY).double()
    start = float(reinforce.baseline)
    assert start == pytest.approx(-torch.tensor(float(VOCABULARY)).log().item())
    log_probs = torch.full((1, 2), -3.0, dtype=torch.float64)
    draws = Draws(torch.ones(1, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64))
    terms = reinforce(draws, log_probs)
    assert float(terms["policy"].sum) == pytest.approx(
        -3 * (-3.0 - start)
    )  # two targets follow the first draw, one the second
    assert float(reinforce.baseline) == pytest.approx(0.9 * start - 0.3)
    assert "baseline" in reinforce.state_dict()


def test_rows_that_used_their_mean_do_not_move_the_baseline():
    reinforce = Reinforce(VOCABULARY, policy_weight=0.3, entropy_weight=0.2).double()
    start = float(reinforce.baseline)
    log_probs = torch.tensor([[-3.0, -5.0], [-0.1, -0.2]], dtype=torch.float64)
    sampled = torch.tensor([[True, True], [False, False]])
    draws = Draws(torch.where(sampled, -1.0, 0.0).double(), torch.ones(2, 2).double(), sampled)
    terms = reinforce(draws, log_probs)
    assert (terms["policy"].weight, terms["entropy"].weight) == (0.3, 0.2)
    assert float(terms["policy"].sum) == pytest.approx(-8 - 2 * start + -5 - start)
    assert float(terms["entropy"].sum) == -4.0
    assert float(reinforce.baseline) == pytest.approx(0.9 * start - 0.4)
    moved = float(reinforce.baseline)
    reinforce(draws._replace(sampled=torch.zeros_like(sampled)), log_probs)
    assert float(reinforce.baseline) == moved
