"""Truncation of a distribution, computed by hand; and the steps of runs, which equal the run's own samples."""

import pytest
import torch

from clew.instruments.looking import look
from clew.instruments.sampling import SampledStep, listed, sampled_step, sampled_steps
from tests.decoding.steppers import Transition
from tests.instruments.small_runs import small_run

ALWAYS = Transition([[[0.5, 0.3, 0.15, 0.05]] * 4])


@pytest.mark.parametrize(
    ("options", "remaining", "mass"),
    [
        ({}, 4, 1.0),
        ({"top_k": 2}, 2, 0.8),
        ({"top_p": 0.9}, 3, 0.95),
        ({"top_p": 0.4}, 1, 0.5),
        ({"top_k": 3, "top_p": 0.6}, 2, 0.8),
    ],
)
def test_truncation_leaves_the_expected_tokens(options, remaining, mass):
    for step in sampled_steps(ALWAYS, torch.tensor([[0]]), max_new=6, ends=[], seed=1, top=4, **options):
        assert step.left == remaining and step.mass == pytest.approx(mass)
        assert step.after == pytest.approx(step.before / mass) and step.rank == step.token + 1
        assert [before for _, before, _ in step.best] == pytest.approx([0.5, 0.3, 0.15, 0.05])
        assert [after > 0 for *_, after in step.best] == [place < remaining for place in range(4)]


def test_a_step_worked_by_hand():
    step = sampled_step(1, torch.tensor([0.5, 0.25, 0.25]).log(), torch.tensor([2 / 3, 1 / 3, 0.0]).log(), 2)
    assert step.entropy == pytest.approx(1.5) and step.rank == 2 and step.left == 2
    assert (step.before, step.after, step.mass) == pytest.approx((0.25, 1 / 3, 0.75))


@pytest.mark.parametrize("name", ["lstm", "gpt", "subwords"])
def test_the_steps_equal_the_runs_generation(name):
    run = small_run(name)
    options = {"top_k": 5, "top_p": 0.8, "temperature": 0.7, "max_new": 8}
    facts = look(run, "sampling", {"text": "the wall", "seed": 3, **options}).facts
    continuation = run.generate("the wall", seed=3, **options)
    ids = [step["token"] for step in facts["steps"]]
    assert facts["text"] == continuation.text and ids[: len(continuation.tokens)] == continuation.tokens
    assert all(1 <= step["left"] <= 5 and step["rank"] <= step["left"] for step in facts["steps"])


def test_a_translators_steps_equal_its_sampled_translation():
    run = small_run("transformer")
    facts = look(run, "sampling", {"text": "the walls", "top_p": 0.9, "max_new": 5, "seed": 2}).facts
    assert len(facts["steps"]) <= 5 and all(step["mass"] >= 0.9 - 1e-6 for step in facts["steps"])


def test_likely_tokens_are_listed_with_visible_spaces_and_cut_ones_in_brackets():
    step = SampledStep(0, 1, 0.7, 1.0, 1, 0.7, 1.0, ((0, 0.7, 1.0), (1, 0.3, 0.0)))
    assert listed(step, {0: " a", 1: " "}.__getitem__) == "·a 0.70; (· 0.30)"
