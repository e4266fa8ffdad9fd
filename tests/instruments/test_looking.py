"""Instruments are called by name with options from the command line, Python and the page; errors are one sentence."""

import json
import re

import pytest

import clew
from clew.core.errors import UserError
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import look, read_assignments, read_options
from tests.instruments.small_runs import small_run


def test_written_options_are_parsed_by_the_type_of_the_field():
    options = read_assignments("next", ["text=12", "top=3", "off=1.1, 2.10"])
    assert options == {"text": "12", "top": 3, "off": ["1.1", "2.10"]}
    assert read_options("next", options).off == ("1.1", "2.10")
    assert read_assignments("next", ["off=[1.2]", "text="]) == {"off": ["1.2"], "text": ""}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"txt": "a"}, "next: unknown field 'txt'; did you mean 'text'\\? known: text, target, into, off, top"),
        ({"top": 0}, "next: top .*, not 0"),
        ({"top": "many"}, "next: top .* number, not 'many'"),
        ({"top": object()}, "next: top .* not <object"),
        ({"off": ["1.1", 2]}, "next: off takes a text, not 2"),
        ({"off": 1.1}, "next: off takes a list, not 1.1"),
    ],
)
def test_invalid_options_are_rejected_with_a_sentence(options, sentence):
    with pytest.raises(UserError, match=sentence):
        look(small_run("lstm"), "next", options)


def test_names_in_one_string_are_split_at_commas():
    assert read_options("next", {"off": "1.1, 2.2", "text": "a, b"}).off == ("1.1", "2.2")
    assert read_options("cost", {"lengths": "4,8"}).lengths == (4, 8)
    assert read_options("next", {"off": ""}).off == ()
    with pytest.raises(UserError, match="unknown head '1.9'"):
        clew.look(small_run("gpt"), "next", text="the", off="1.9")


def test_an_unknown_instrument_is_rejected_with_the_nearest_name():
    with pytest.raises(UserError, match="unknown instrument 'surprise'; did you mean 'surprisal'?"):
        clew.look(small_run("lstm"), "surprise")
    with pytest.raises(UserError, match="there is no run to look at; pass at least one to 'surprisal'"):
        clew.look([], "surprisal")
    for assignments, sentence in (
        (["top"], "an option is name=value, such as layer=2, not 'top'"),
        (["top=1", "top=2"], "'top' is given twice; leave one out"),
    ):
        with pytest.raises(UserError, match=sentence):
            read_assignments("next", assignments)


def test_several_runs_are_shown_in_sequence():
    view = clew.look([small_run("lstm"), small_run("gpt")], "next", text="the")
    assert set(view.facts) == {"lstm", "gpt"}
    assert view.facts["gpt"] == clew.look(small_run("gpt"), "next", text="the").facts
    twice = clew.look([small_run("gpt")] * 2, "next", text="the")
    assert list(twice.facts) == ["1: runs/gpt", "2: runs/gpt"] and len(twice.parts) == len(view.parts)


def test_heads_that_are_off_change_the_view():
    run = small_run("gpt")
    whole = clew.look(run, "surprisal", text="the walls").facts["bits"]
    without = clew.look(run, "surprisal", text="the walls", off=["1.1", "2.2"]).facts["bits"]
    assert whole != without and clew.look(run, "surprisal", text="the walls").facts["bits"] == whole
    with pytest.raises(UserError, match="unknown head '9.9'"):
        clew.look(run, "surprisal", text="the walls", off=["9.9"])


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_every_option_of_an_instrument_is_described(name):
    schema = INSTRUMENTS[name].options.model_json_schema()
    for field, about in schema["properties"].items():
        assert about.get("description"), field
    assert re.fullmatch("[a-z_]+", name) and INSTRUMENTS[name].about
    json.dumps(schema)


HOSTILE = ["", "  \n", "\ud800", "\0\x1b[31m", "<script>alert(1)</script>", "a" * 5000, "\u202e\u2066abc"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_read_or_rejected_in_one_line(text):
    for name, run in (("tokens", "gpt"), ("surprisal", "lstm"), ("tokens", "transformer"), ("surprisal", "words")):
        try:
            json.dumps(look(small_run(run), name, {"text": text}).facts)
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 500
