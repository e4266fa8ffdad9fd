"""Every quick instrument on every run that it fits: what it shows is drawn, printed and JSON; what does not fit says
why in a sentence."""

import json

import pytest

from clew.cli.terminal.view_text import view_lines
from clew.core.errors import UserError
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import look
from clew.instruments.subjects.subject import subject_of
from tests.instruments.small_runs import RUNS, small_run

TEXT = "the <b>walls</b> were & 'tall'"
NEEDED = {
    "cost": {"lengths": [4, 8], "repeats": 0},
    "attribution": {"steps": 4},
    "beam": {"max_new": 3},
    "sampling": {"max_new": 3},
}

ALWAYS = (
    "tokens",
    "surprisal",
    "next",
    "attention",
    "alignment",
    "attribution",
    "logit_lens",
    "beam",
    "sampling",
    "cost",
)
"""Those that see something in some run with no more than a text; the others are tried where their files, heads or
longer texts are."""


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_what_an_instrument_sees_is_drawn_printed_and_json(name):
    instrument, seen = INSTRUMENTS[name], 0
    options = dict(NEEDED.get(name, {}))
    for kind in RUNS:
        run = small_run(kind)
        if (why := instrument.why_not(subject_of(run))) is not None:
            assert str(run.folder) in why and "\n" not in why
            continue
        if not instrument.quick and name not in NEEDED:
            continue
        if "text" in instrument.options.model_fields:
            options["text"] = (
                "the [MASK] were tall" if kind == "bert" else TEXT if kind == "subwords" else "the walls were tall"
            )
        try:
            view = look(run, name, options)
        except UserError as error:
            assert "\n" not in str(error)
            continue
        json.dumps(view.facts, allow_nan=False)
        assert view.title in view.html() and "<svg" in view.svg() and list(view_lines(view))[0] == view.title
        seen += 1
    assert seen or name not in ALWAYS


@pytest.mark.parametrize(
    "name", [name for name, each in INSTRUMENTS.items() if each.own_text(subject_of(small_run("lstm")))]
)
def test_an_instrument_that_finds_a_text_of_its_own_says_so_where_one_is_asked_for(name):
    assert "by default" in INSTRUMENTS[name].options.model_fields["text"].description
