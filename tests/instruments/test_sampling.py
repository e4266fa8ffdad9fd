"""Cut-offs on a distribution worked by hand; and the steps of runs, which are those that the run itself draws."""

import pytest
import torch

from clew.instruments.looking import look
from clew.instruments.sampling import SampledStep, listed, sampled_step, sampled_steps
from tests.decoding.steppers import Transition
from tests.instruments.small_runs import small_run

ALWAYS = Transition([[[0.5, 0.3, 0.15, 0.05]] * 4])


@pytest.mark.parametrize(
    ("options", "left", "mass"),
    [
        ({}, 4, 1.0),
        ({"top_k": 2}, 2, 0.8),
        ({"top_p": 0.9}, 3, 0.95),
        ({"top_p": 0.4}, 1, 0.5),
        ({"top_k": 3, "top_p": 0.6}, 2, 0.8),
    ],
)
def test_what_the_cut_offs_leave(options, left, mass):
    for step in sampled_steps(ALWAYS, torch.tensor([[0]]), max_new=6, ends=[], seed=1, top=4, **options):
        assert step.left == left and step.mass == pytest.approx(mass)
        assert step.after == pytest.approx(step.before / mass) and step.rank == step.token + 1
        assert [before for _, before, _ in step.best] == pytest.approx([0.5, 0.3, 0.15, 0.05])
        assert [after > 0 for *_, after in step.best] == [place < left for place in range(4)]


def test_a_step_worked_by_hand():
    found = sampled_step(1, torch.tensor([0.5, 0.25, 0.25]).log(), torch.tensor([2 / 3, 1 / 3, 0.0]).log(), 2)
    assert found.entropy == pytest.approx(1.5) and found.rank == 2 and found.left == 2
    assert (found.before, found.after, found.mass) == pytest.approx((0.25, 1 / 3, 0.75))


@pytest.mark.parametrize("name", ["lstm", "gpt", "subwords"])
def test_the_steps_are_those_of_the_run(name):
    run = small_run(name)
    options = {"top_k": 5, "top_p": 0.8, "temperature": 0.7, "max_new": 8}
    facts = look(run, "sampling", {"text": "the wall", "seed": 3, **options}).facts
    found = run.generate("the wall", seed=3, **options)
    ids = [step["token"] for step in facts["steps"]]
    assert facts["text"] == found.text and ids[: len(found.tokens)] == found.tokens
    assert all(1 <= step["left"] <= 5 and step["rank"] <= step["left"] for step in facts["steps"])


def test_a_translator_draws_as_it_translates():
    run = small_run("transformer")
    facts = look(run, "sampling", {"text": "the walls", "top_p": 0.9, "max_new": 5, "seed": 2}).facts
    assert len(facts["steps"]) <= 5 and all(step["mass"] >= 0.9 - 1e-6 for step in facts["steps"])


def test_the_likeliest_are_listed_apart_with_spaces_seen_and_what_was_cut_in_brackets():
    step = SampledStep(0, 1, 0.7, 1.0, 1, 0.7, 1.0, ((0, 0.7, 1.0), (1, 0.3, 0.0)))
    assert listed(step, {0: " a", 1: " "}.__getitem__) == "·a 0.70; (· 0.30)"
