"""Scheduled sampling: how often a decoder reads its own predictions, which predictions these are, and that resumed runs
are bit-identical."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.tasks.shared.scheduled_sampling import DECAYS, draw_tokens, mix_tokens
from clew.tasks.shared.sequence import SequenceBatch, SequenceConfig, SequenceToSequence
from clew.training.signals import Interrupted
from tests.tasks.sequences import batch_of, sequence_task
from tests.training.pairs import LSTM, TRANSFORMER, pair_settings
from tests.training.test_run import Listener, assert_same_run, losses

FORMULAS: dict[str, tuple[dict[str, float], Any]] = {
    "linear": ({"start": 0.9, "slope": 0.004, "floor": 0.25}, lambda i: max(0.25, 0.9 - 0.004 * i)),
    "exponential": ({"base": 0.98}, lambda i: 0.98**i),
    "inverse_sigmoid": ({"scale": 20.0}, lambda i: 20 / (20 + math.exp(i / 20))),
}
"""Bengio et al. 2015, section 2.4."""


def sampling_task(way: str, share: float, **config: Any) -> SequenceToSequence:
    """A task that reads its targets with a constant probability."""
    sampling = {"name": "linear", "start": share, "slope": 0.0}
    return sequence_task(way, config=SequenceConfig(tied=False, scheduled_sampling=sampling, **config))


def certain(task: SequenceToSequence) -> SequenceToSequence:
    """The task with its most likely token made almost certain."""
    assert task.output_weight is not None
    with torch.no_grad():
        task.output_weight.mul_(1e6)
    return task


def likeliest(task: SequenceToSequence, batch: SequenceBatch) -> torch.Tensor:
    with torch.no_grad():
        return task.log_probs(task.decode(batch)[0]).argmax(-1)


@pytest.mark.parametrize("name", DECAYS)
def test_a_decay_is_the_papers_formula(name: str) -> None:
    options, formula = FORMULAS[name]
    steps = [0, 1, 7, 60, 200, 100_000]
    expected = [formula(i) if i < 10_000 or name == "linear" else 0.0 for i in steps]
    assert DECAYS[name](**options)(torch.tensor(steps).float()).tolist() == pytest.approx(expected, abs=1e-6)


def test_each_token_except_the_first_is_replaced_with_the_remaining_probability() -> None:
    torch.manual_seed(0)
    tokens, predicted = torch.zeros(4000, 6, dtype=torch.long), torch.arange(1, 7).expand(4000, 6)
    share = torch.tensor([0.2, 0.9]).repeat(2000)
    mixed = mix_tokens(tokens, predicted, share)
    assert not mixed[:, 0].any()
    for rows, kept in ((slice(0, None, 2), 0.2), (slice(1, None, 2), 0.9)):
        assert float((mixed[rows, 1:] == 0).double().mean()) == pytest.approx(kept, abs=0.02)
    own = mixed != 0
    assert torch.equal(mixed[own], torch.arange(6).expand(4000, 6)[own])  # the token at t was predicted at t - 1


def test_predictions_are_sampled_by_their_probability() -> None:
    torch.manual_seed(0)
    log_probs = torch.tensor([0.5, 0.3, 0.2]).log()
    drawn = draw_tokens(torch.zeros(5, 1500, 1), lambda hidden: log_probs.expand(len(hidden), 3))
    assert drawn.shape == (5, 1500)
    assert (drawn.flatten().bincount() / 7500).tolist() == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


@pytest.mark.parametrize("way", ["luong", "bahdanau-deep", "transformer", "bottleneck"])
def test_the_loss_is_that_of_reading_own_predictions(way: str) -> None:
    """No targets are read; each prediction is the one that follows the targets before it."""
    task = certain(sampling_task(way, 0.0))
    batch = batch_of(task)
    own = torch.cat([batch.tokens[:, :1], likeliest(task, batch)[:, :-1]], 1)
    assert batch.mask is not None and not torch.equal(own[batch.mask], batch.tokens[batch.mask])
    terms, _ = task.train()(batch)
    expected, _ = task(batch._replace(tokens=own, step=None))
    torch.testing.assert_close(terms["loss"].sum, expected["loss"].sum)


@pytest.mark.parametrize("way", ["luong", "transformer", "hard"])
def test_always_reading_targets_is_teacher_forcing(way: str) -> None:
    task = sampling_task(way, 1.0)
    batch = batch_of(task)
    mixed = task.train().with_own_tokens(batch, task.read(batch))
    assert torch.equal(mixed.tokens, batch.tokens)
    plain = sequence_task(way, config=SequenceConfig(tied=False))
    assert batch_of(plain).step is None
    if way != "hard":  # hard attention samples other places after tokens were sampled
        torch.testing.assert_close(task(batch)[0]["loss"].sum, plain(batch_of(plain))[0]["loss"].sum)


def test_evaluation_reads_only_targets() -> None:
    task = certain(sampling_task("luong", 0.0)).eval()
    batch = batch_of(task)
    assert task.with_own_tokens(batch, task.read(batch)) is batch


def test_no_gradient_comes_from_the_first_pass() -> None:
    task = certain(sampling_task("luong", 0.0))
    batch = batch_of(task)
    own = torch.cat([batch.tokens[:, :1], likeliest(task, batch)[:, :-1]], 1)
    gradients = []
    for inputs in (batch, batch._replace(tokens=own, step=None)):
        task.train().zero_grad()
        task(inputs)[0]["loss"].sum.backward()
        gradients.append([parameter.grad for parameter in task.parameters()])
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("model", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_a_resumed_run_is_bit_identical_and_continues_the_decay(
    tmp_path: Path, model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sampling = [
        "task.scheduled_sampling=linear",
        "task.scheduled_sampling.slope=0.2",
        "model.dropout=0.1",
        "training.accumulate=2",
    ]
    settings = [*pair_settings(tmp_path, steps=6, model=model), *sampling]
    run_recipe("translate", settings, out=Path("straight"))
    with pytest.raises(Interrupted):
        run_recipe("translate", settings, out=Path("stopped"), report=Listener(stop_at_step=3))
    run_recipe("translate", [], out=Path("stopped"), resume=True)
    assert_same_run(Path("straight"), Path("stopped"))
    run_recipe("translate", [*settings, "task.scheduled_sampling.slope=0.0"], out=Path("forced"))
    straight, forced = losses(Path("straight")), losses(Path("forced"))
    assert straight[0] == forced[0] and straight[1:] != forced[1:]  # at step 0 all targets are read, later fewer


def test_invalid_settings_are_rejected_with_a_sentence() -> None:
    with pytest.raises(UserError, match="unknown scheduled_sampling 'liner'; did you mean 'linear'"):
        config_of("translate", ["task.scheduled_sampling=liner"])
    for options, sentence in (
        (
            {"name": "linear", "start": 1.5},
            r"the start of scheduled_sampling \(1.5\) must be a probability, between 0 and 1",
        ),
        (
            {"name": "linear", "floor": -0.1},
            r"the floor of scheduled_sampling \(-0.1\) must be a probability, between 0 and 1",
        ),
        ({"name": "linear", "slope": -1.0}, r"the slope of scheduled_sampling \(-1.0\) must be at least 0"),
        (
            {"name": "exponential", "base": 1.0},
            r"the base of scheduled_sampling \(1.0\) must be between 0 and 1, such as 0.9999",
        ),
        (
            {"name": "inverse_sigmoid", "scale": 0.5},
            r"the scale of scheduled_sampling \(0.5\) must be at least 1; it is in steps, and larger is slower",
        ),
    ):
        with pytest.raises(UserError, match=sentence):
            sequence_task("luong", config=SequenceConfig(scheduled_sampling=options))
