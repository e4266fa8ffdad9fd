"""Pictures of probabilities are drawn from 0 to 1, and those of several runs on one scale."""

import math

import pytest

from clew.core.errors import UserError
from clew.drawing.views import Bars, ColouredText
from clew.instruments.looking import look, look_beside
from tests.instruments.small_runs import small_run


@pytest.mark.parametrize(
    ("instrument", "run", "options"),
    [
        ("next", "gpt", {"text": "the walls"}),
        ("next", "bert", {"text": "the [MASK] were"}),
        ("prediction", "classifier", {"text": "the walls"}),
        ("ablation", "heads", {"text": "the walls", "heads": ["1.1"]}),
    ],
)
def test_bars_of_probability_are_drawn_from_0_to_1(instrument, run, options):
    bars = [part for part in look(small_run(run), instrument, options).parts if isinstance(part, Bars)]
    assert bars and all((part.label, part.low, part.high) == ("probability", 0.0, 1.0) for part in bars)


def test_two_runs_list_the_tokens_of_both_with_each_runs_probability():
    names = ("lstm", "gpt")
    view = look([small_run(name) for name in names], "next", {"text": "the walls", "top": 3})
    one, other = (part for part in view.parts if isinstance(part, Bars))
    assert list(one.names) == list(other.names) and one.names[-1] == "all others" and len(one.names) > 4
    for name, part in zip(names, (one, other), strict=True):
        whole = look(small_run(name), "next", {"text": "the walls", "top": 200}).facts["next"][0]
        own = dict(zip(whole["tokens"], whole["probabilities"], strict=True))
        assert list(part.values[:-1]) == pytest.approx([own[token] for token in part.names[:-1]], abs=1e-6)
        assert sum(part.values) == pytest.approx(1.0)


def test_a_token_missing_in_a_vocabulary_has_no_probability():
    (part,) = look(small_run("gpt"), "next", {"text": "the walls", "top": 2, "also": ["nowhere"]}).parts
    assert list(part.names)[2:] == ["nowhere", "all others"] and math.isnan(part.values[2])
    assert sum(value for value in part.values if not math.isnan(value)) == pytest.approx(1.0)


def test_surprisal_of_two_runs_has_one_scale():
    view = look([small_run("lstm"), small_run("gpt")], "surprisal", {"text": "the walls were"})
    one, other = (part for part in view.parts if isinstance(part, ColouredText))
    assert (one.low, one.high) == (other.low, other.high) and one.high == max(*one.values, *other.values)


def test_a_run_with_and_without_a_head_shares_a_scale_and_errors_are_shown():
    run, text = small_run("gpt"), {"text": "the walls"}
    before, after, refused = look_beside(
        [([run], text), ([run], {**text, "off": ["1.1"]}), ([run], {**text, "off": ["9.9"]})], "attention"
    )
    assert before.parts[0].high == after.parts[0].high and before.parts[1].high == after.parts[1].high
    assert before.facts["off"] == [] and after.facts["off"] == ["1.1"]
    assert isinstance(refused, UserError) and "unknown head '9.9'" in str(refused)
