"""What may be chosen of a run is in the schema of an instrument's options: its own layers and heads, and which go
together."""

import pytest

from clew.instruments import INSTRUMENTS
from clew.instruments.looking import look
from clew.instruments.subjects.sentences import level_words
from clew.instruments.subjects.subject import subject_of
from tests.instruments.small_runs import RUNS, small_run

TEXT = {"text": "the walls"}


def schema(instrument: str, run: str) -> dict:
    return INSTRUMENTS[instrument].schema(subject_of(small_run(run)))


def chosen(schema: dict, field: str) -> list:
    kinds = schema["properties"][field].get("anyOf", [schema["properties"][field]])
    return next(kind.get("enum") or kind["items"]["enum"] for kind in kinds if kind.get("type") != "null")


@pytest.mark.parametrize("run", ["gpt", "pruned", "transformer", "attentive", "bert"])
def test_every_layer_and_head_that_may_be_chosen_is_drawn(run):
    choices = schema("attention", run)["choices"]
    assert choices["options"] == ["heads", "layer", "head"]
    for row, name in zip(choices["rows"], choices["names"], strict=True):
        options = dict(zip(choices["options"], row, strict=True))
        assert look(small_run(run), "attention", {**TEXT, **options}).parts[0].title == f"Head {name}"


def test_a_run_that_lost_heads_offers_those_that_it_has():
    found = schema("attention", "pruned")
    assert chosen(found, "layer") == [2, 3] and chosen(found, "off") == ["2.1", "2.2", "3.1"]
    assert found["choices"]["rows"] == [["self", 2, 1], ["self", 2, 2], ["self", 3, 1]]
    assert schema("attention", "transformer")["properties"]["heads"]["default"] == "cross"
    assert chosen(schema("ablation", "pruned"), "heads") == ["2.1", "2.2", "3.1"]


def test_recurrent_layers_and_layers_that_look_at_a_source_are_listed():
    for layer in chosen(schema("cells", "attentive"), "layer"):
        assert look(small_run("attentive"), "cells", {**TEXT, "layer": layer}).facts["layer"] == layer or layer == ""
    for layer in chosen(schema("alignment", "transformer"), "layer"):
        assert look(small_run("transformer"), "alignment", {**TEXT, "layer": layer}).title == "Alignment"


@pytest.mark.parametrize("run", [name for name in RUNS if subject_of(small_run(name)).has("vectors")])
def test_levels_that_may_be_chosen_are_those_that_there_are(run):
    kinds = schema("occurrences", run)["properties"]["layer"]["anyOf"]
    if "enum" in kinds[0]:
        assert kinds[0]["enum"] == list(range(len(level_words(small_run(run), [["the", "walls"]]))))


def test_a_model_without_heads_has_nothing_to_switch_off():
    assert "enum" not in schema("next", "lstm")["properties"]["off"]["items"]
