import pytest

from clew.core.errors import UserError
from clew.drawing.views import Lines
from clew.instruments.looking import look, look_beside
from tests.instruments.small_runs import small_run


@pytest.mark.parametrize(
    "name", ["elman", "lstm", "gpt", "llama", "bert", "elmo", "transformer", "classifier", "heads"]
)
def test_every_layer_of_a_run_costs_as_its_formula(name):
    run = small_run(name)
    facts = look(run, "cost", {"lengths": [4, 8], "repeats": 0}).facts
    assert facts["parameters"] == sum(parameter.numel() for parameter in run.task.parameters())
    for layer in facts["layers"]:
        assert layer["flops"] == layer["formula"], layer["name"]


def test_equal_layers_are_measured_once_and_multiplied():
    layers = look(small_run("transformer"), "cost", {"lengths": [4], "repeats": 0}).facts["layers"]
    assert [layer["name"] for layer in layers] == [
        "2 x encoder SelfAttention",
        "2 x encoder FeedForward",
        "2 x decoder SelfAttention",
        "2 x decoder CrossAttention",
        "2 x decoder FeedForward",
    ]


def test_a_recurrent_layer_waits_for_each_token_and_attention_does_not():
    (lstm,) = look(small_run("lstm"), "cost", {"lengths": [4, 16], "repeats": 0}).facts["layers"]
    attention, network = look(small_run("gpt"), "cost", {"lengths": [4, 16], "repeats": 0}).facts["layers"]
    assert lstm["chains"] == [4, 16] and attention["chains"] == [4, 4] and network["chains"] == [2, 2]


def test_times_are_measured_on_request():
    (layer,) = look(small_run("lstm"), "cost", {"lengths": [4, 8], "repeats": 1}).facts["layers"]
    assert len(layer["seconds"]) == 2 and min(layer["seconds"]) > 0


def test_lengths_are_limited_by_the_models_positions():
    facts = look(small_run("gpt"), "cost", {"lengths": [8, 4096], "repeats": 0}).facts
    assert facts["layers"][0]["sizes"] == [8]
    for lengths, sentence in (
        ([4096], r"the model has 32 positions; use lengths up to that, not \[4096\]"),
        ([], "must be one or more whole numbers"),
        ([0], "from 1 to"),
    ):
        with pytest.raises(UserError, match=sentence):
            look(small_run("gpt"), "cost", {"lengths": lengths, "repeats": 0})


def test_a_layer_without_a_formula_has_no_line_for_one():
    view = look(small_run("attentive"), "cost", {"lengths": [4, 8], "repeats": 0})
    has_formula = {layer["name"]: bool(layer["formula"]) for layer in view.facts["layers"]}
    assert has_formula == {"encoder two-way LSTM": True, "decoder FeedingCell": False}
    names = [series.name for series in next(part for part in view.parts if isinstance(part, Lines)).series]
    assert [f"{name}, formula" in names for name in has_formula] == list(has_formula.values())


def test_lines_of_two_runs_have_equal_names_and_powers_in_the_table():
    one, other = (
        [part for part in view.parts if isinstance(part, Lines)]
        for view in look_beside(
            [([small_run("gpt")], {"lengths": lengths, "repeats": 1}) for lengths in ([4, 16], [3, 5])], "cost"
        )
    )
    for first, second in zip(one, other, strict=True):
        assert [series.name for series in first.series] == [series.name for series in second.series]
        assert all(series.y for series in (*first.series, *second.series))
    table = look(small_run("lstm"), "cost", {"lengths": [4, 16], "repeats": 1}).parts[0]
    assert table.header[-4:] == ("alive (kB)", "power of n in memory", "time (ms)", "power of n in time")
    untimed = look(small_run("lstm"), "cost", {"lengths": [4, 16], "repeats": 0}).parts[0]
    assert untimed.header[-1] == "power of n in memory" and len(untimed.rows[0]) == len(untimed.header)
