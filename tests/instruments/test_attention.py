import numpy as np
import pytest

from clew.core.errors import UserError
from clew.drawing.views import Grid
from clew.instruments import attention
from clew.instruments.attention import attention_maps, full_colour, habits
from clew.instruments.looking import look
from clew.instruments.reading import read
from tests.instruments.small_runs import small_run

TEXT = "the walls were tall"


@pytest.mark.parametrize(("name", "heads"), [("gpt", "self"), ("bert", "self"), ("llama", "self"), ("heads", "self")])
def test_rows_sum_to_one_and_the_future_gets_no_weight(name, heads):
    run = small_run(name)
    for layer in attention_maps(read(run, TEXT), heads):
        np.testing.assert_allclose(layer.maps.sum(-1), 1.0, atol=1e-5)
        if run.task.body.causal:
            assert (np.triu(layer.maps, 1) == 0).all()


@pytest.mark.parametrize("name", ["attentive", "transformer"])
def test_cross_attention_has_a_row_per_target_token(name):
    run = small_run(name)
    reading = read(run, TEXT, "tall were")
    for layer in attention_maps(reading, "cross"):
        assert layer.maps.shape[1:] == (len(reading.written), len(reading.tokens))
        np.testing.assert_allclose(layer.maps.sum(-1), 1.0, atol=1e-5)
    mean = np.mean([layer.maps.mean(0) for layer in attention_maps(reading, "cross")[:1]], 0)
    np.testing.assert_allclose(mean, run.align(TEXT, "tall were", layer=1).weights.numpy(), atol=1e-5)


def test_weights_are_the_softmax_of_the_scores():
    reading = read(small_run("gpt"), TEXT)
    for scores, weights in zip(attention_maps(reading, "self", "scores"), attention_maps(reading, "self"), strict=True):
        raised = np.exp(scores.maps.astype(np.float64) - scores.maps.max(-1, keepdims=True))
        np.testing.assert_allclose(raised / raised.sum(-1, keepdims=True), weights.maps, atol=1e-6)


def test_habits_of_heads_worked_by_hand():
    itself = habits(np.eye(4))
    assert itself == (0.0, 0.0, 1.0, 0.0, 0.25)
    before = habits(np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]]))
    assert before == pytest.approx((0.0, 2 / 3, 1 / 3, 1.0, 2 / 3))
    even = habits(np.full((2, 4), 0.25))
    assert even.entropy == pytest.approx(2.0) and even.distance == pytest.approx((6 + 4) / 8)


def test_one_head_is_drawn_large_and_all_small():
    run = small_run("transformer")
    view = look(run, "attention", {"text": TEXT, "target": "tall were", "heads": "decoder", "layer": 2, "head": 1})
    assert view.facts["rows"] == view.facts["columns"] == ["<eos>", "tall", "were"]
    grid = next(part for part in view.parts if isinstance(part, Grid))
    np.testing.assert_allclose(view.facts["values"], grid.maps[1][0], atol=1e-5)
    assert [len(row) for row in grid.maps] == [2, 2] and list(grid.row_names) == ["decoder.1", "decoder.2"]
    assert look(run, "attention", {"text": TEXT, "target": "tall were"}).facts["heads"] == "cross"
    assert look(small_run("gpt"), "attention", {"text": TEXT, "kind": "scores"}).facts["layer"] == 2


def test_layers_above_a_fully_pruned_one_keep_their_numbers():
    run = small_run("pruned")
    view = look(run, "attention", {"text": TEXT, "layer": 2, "head": 1})
    grid = next(part for part in view.parts if isinstance(part, Grid))
    assert view.parts[0].title == "Head 2.1" and view.facts["layer"] == 2
    np.testing.assert_allclose(view.facts["values"], grid.maps[1][0], atol=1e-5)
    assert view.facts["layers"] == [1, 2, 3] and view.facts["names"] == [[], ["2.1", "2.2"], ["3.1"]]
    assert look(run, "attention", {"text": TEXT}).facts["layer"] == 3
    assert (
        np.abs(look(run, "attention", {"text": TEXT, "layer": 2, "head": 2, "off": ["2.2"]}).facts["values"]).max() == 0
    )


def test_a_head_that_is_off_has_zero_weights():
    values = look(small_run("gpt"), "attention", {"text": TEXT, "layer": 1, "head": 2, "off": ["1.2"]}).facts["values"]
    assert np.abs(values).max() == 0


def test_a_head_that_is_off_is_marked_in_every_picture_and_list():
    view = look(small_run("gpt"), "attention", {"text": TEXT, "layer": 1, "head": 2, "off": ["1.2"]})
    one, grid, table = view.parts
    assert one.title == "Head 1.2 (off)" and "heads off: 1.2" in view.about and view.facts["off"] == ["1.2"]
    assert [list(row) for row in grid.notes] == [["", "off"], ["", ""]]
    assert table.rows[1] == ("1.2", "off", None, None, None, None, None) and table.rows[0][:2] == ("1.1", "on")


def test_the_mean_of_a_layer_is_over_heads_that_are_on():
    options = {"text": TEXT, "layer": 1}
    alone = look(small_run("gpt"), "attention", {**options, "head": 1}).facts["values"]
    view = look(small_run("gpt"), "attention", {**options, "off": ["1.2"]})
    np.testing.assert_allclose(view.facts["values"], alone, atol=1e-5)
    assert view.parts[0].title == "Layer 1, mean of the 1 of 2 heads that are on; off: 1.2"
    silent = look(small_run("gpt"), "attention", {**options, "off": ["1.1", "1.2"]})
    assert silent.parts[0].title == "Layer 1: all heads are off" and np.abs(silent.facts["values"]).max() == 0


def test_pruned_heads_are_named_at_their_places():
    view = look(small_run("pruned"), "attention", {"text": TEXT})
    grid, table = view.parts[1:]
    assert [list(row) for row in grid.notes] == [["pruned", "pruned"], ["", ""], ["", "pruned"]]
    assert [row[0] for row in table.rows] == ["layer 1", "2.1", "2.2", "3.1", "layer 3"]
    assert [row[1] for row in table.rows] == ["2 heads pruned", "on", "on", "on", "1 head pruned"]
    assert "pruned: 2 heads of layer 1, 1 head of layer 3" in view.about and view.facts["pruned"] == {"1": 2, "3": 1}


def test_weights_and_habits_have_units():
    one, grid, table = look(small_run("gpt"), "attention", {"text": TEXT}).parts
    assert (one.label, one.unit) == ("weight", "%") and "%" in grid.title
    assert table.header[2:] == (
        "entropy (bits)",
        "distance (tokens)",
        "on itself (%)",
        "on the one before (%)",
        "on the first (%)",
    )


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("lstm", {}, "has no attention, and so no heads"),
        ("gpt", {"heads": "cross"}, "runs/gpt has no cross attention; heads=self"),
        ("gpt", {"layer": 3}, "there is no layer 3 of self attention in runs/gpt; known: 1, 2"),
        ("pruned", {"layer": 1}, "there is no layer 1 of self attention in runs/pruned; known: 2, 3"),
        ("pruned", {"head": 2}, "there is no head 2; layer 3 has 1 head"),
        ("gpt", {"head": 3}, "there is no head 3; layer 2 has 2 heads"),
        ("attentive", {"heads": "self"}, "runs/attentive has no self attention; heads=cross"),
    ],
)
def test_missing_heads_and_layers_are_reported(name, options, sentence):
    with pytest.raises(UserError, match=sentence):
        look(small_run(name), "attention", {"text": TEXT, **options})


def test_too_large_maps_are_rejected(monkeypatch):
    monkeypatch.setattr(attention, "MOST_CELLS", 1000)
    with pytest.raises(UserError, match="19 x 19 weights of all heads take .* too much to show; shorten the text"):
        look(small_run("gpt"), "attention", {"text": TEXT})


def test_the_colour_scale_ends_at_a_round_weight_above_most_maxima():
    sharp, spread = np.eye(8), np.full((400, 400), 1 / 400)
    assert full_colour([sharp]) == 1.0 and full_colour([spread]) == 0.005
    assert full_colour([np.concatenate([np.eye(3, 10), np.full((10, 10), 0.1)])]) == 0.2


def test_masked_scores_have_no_value_and_small_maps_reach_the_lowest_score():
    view = look(small_run("gpt"), "attention", {"text": TEXT, "kind": "scores", "layer": 1, "head": 1})
    large, grid = view.parts
    is_masked = np.triu(np.ones(large.values.shape, dtype=bool), 1)
    assert np.array_equal(np.isnan(large.values), is_masked)
    assert view.facts["values"][0][1] is None and view.facts["values"][1][0] == pytest.approx(
        large.values[1, 0], abs=1e-5
    )
    lowest = min(np.nanmin(each) for row in grid.maps for each in row)
    assert lowest < 0 and grid.low == pytest.approx(lowest)
