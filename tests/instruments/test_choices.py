"""The schema of an instrument's options lists the choices of a run: its layers and heads, and which go together."""

import pytest

from clew.instruments import INSTRUMENTS
from clew.instruments.looking import look
from clew.instruments.subjects.sentences import level_words
from clew.instruments.subjects.subject import subject_of
from tests.instruments.small_runs import RUNS, small_run

TEXT = {"text": "the walls"}


def schema(instrument: str, run: str) -> dict:
    return INSTRUMENTS[instrument].schema(subject_of(small_run(run)))


def choices(schema: dict, field: str) -> list:
    kinds = schema["properties"][field].get("anyOf", [schema["properties"][field]])
    return next(kind.get("enum") or kind["items"]["enum"] for kind in kinds if kind.get("type") != "null")


@pytest.mark.parametrize("run", ["gpt", "pruned", "transformer", "attentive", "bert"])
def test_every_available_layer_and_head_is_drawn(run):
    choices = schema("attention", run)["choices"]
    assert choices["options"] == ["heads", "layer", "head"]
    for row, name in zip(choices["rows"], choices["names"], strict=True):
        options = dict(zip(choices["options"], row, strict=True))
        assert look(small_run(run), "attention", {**TEXT, **options}).parts[0].title == f"Head {name}"


def test_a_pruned_run_offers_its_remaining_heads():
    pruned_schema = schema("attention", "pruned")
    assert choices(pruned_schema, "layer") == [2, 3] and choices(pruned_schema, "off") == ["2.1", "2.2", "3.1"]
    assert pruned_schema["choices"]["rows"] == [["self", 2, 1], ["self", 2, 2], ["self", 3, 1]]
    assert schema("attention", "transformer")["properties"]["heads"]["default"] == "cross"
    assert choices(schema("ablation", "pruned"), "heads") == ["2.1", "2.2", "3.1"]


def test_recurrent_and_cross_attention_layers_are_listed():
    for layer in choices(schema("cells", "attentive"), "layer"):
        assert look(small_run("attentive"), "cells", {**TEXT, "layer": layer}).facts["layer"] == layer or layer == ""
    for layer in choices(schema("alignment", "transformer"), "layer"):
        assert look(small_run("transformer"), "alignment", {**TEXT, "layer": layer}).title == "Alignment"


@pytest.mark.parametrize("run", [name for name in RUNS if subject_of(small_run(name)).has("vectors")])
def test_the_existing_levels_can_be_chosen(run):
    kinds = schema("occurrences", run)["properties"]["layer"]["anyOf"]
    if "enum" in kinds[0]:
        assert kinds[0]["enum"] == list(range(len(level_words(small_run(run), [["the", "walls"]]))))


def test_a_model_without_heads_has_nothing_to_switch_off():
    assert "enum" not in schema("next", "lstm")["properties"]["off"]["items"]
