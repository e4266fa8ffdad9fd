"""Every quick instrument on every run that it supports can be drawn, printed and written as JSON; for others it says in
one sentence why not."""

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
"""Instruments that need only a text; the others are tested where their files, heads or longer texts are available."""


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_views_can_be_drawn_printed_and_written_as_json(name):
    instrument, num_views = INSTRUMENTS[name], 0
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
        num_views += 1
    assert num_views or name not in ALWAYS


@pytest.mark.parametrize(
    "name", [name for name, each in INSTRUMENTS.items() if each.own_text(subject_of(small_run("lstm")))]
)
def test_instruments_with_a_default_text_document_it(name):
    assert "by default" in INSTRUMENTS[name].options.model_fields["text"].description
