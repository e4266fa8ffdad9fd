"""Every picture states what its numbers measure, and in which unit."""

import pytest

from clew.drawing.views import Heatmap, Table
from clew.instruments.looking import look
from tests.instruments.small_runs import small_run

TEXT = {"text": "the walls were"}
LOOKS = [
    ("attention", "gpt", TEXT),
    ("cells", "lstm", TEXT),
    ("levels", "gpt", TEXT),
    ("logit_lens", "gpt", TEXT),
    ("heads", "gpt", TEXT),
    ("alignment", "attentive", TEXT),
    ("cka", "gpt", {"sentences": 4}),
]
HEADINGS = [
    ("surprisal", "gpt", TEXT, {"surprisal (bits)"}),
    ("beam", "gpt", {**TEXT, "max_new": 2}, {"log p (nats)"}),
    ("attribution", "gpt", TEXT, {"attribution (nats)"}),
    ("ablation", "gpt", {**TEXT, "heads": ["1.1"]}, {"change (bits)"}),
    ("alignment", "attentive", TEXT, {"weight (%)"}),
    ("cost", "gpt", {"lengths": [4], "repeats": 1}, {"time (ms)", "alive (kB)"}),
    ("gates", "lstm", TEXT, {"median (steps)"}),
    ("levels", "gpt", TEXT, {"turn (1 - cos)"}),
]


@pytest.mark.parametrize(("instrument", "run", "options"), LOOKS, ids=[name for name, *_ in LOOKS])
def test_a_heatmap_states_what_it_measures(instrument, run, options):
    heatmaps = [part for part in look(small_run(run), instrument, options).parts if isinstance(part, Heatmap)]
    assert heatmaps and all(part.label for part in heatmaps)


@pytest.mark.parametrize(("instrument", "run", "options", "headings"), HEADINGS, ids=[name for name, *_ in HEADINGS])
def test_columns_of_numbers_have_units(instrument, run, options, headings):
    headers = {
        name
        for part in look(small_run(run), instrument, options).parts
        if isinstance(part, Table)
        for name in part.header
    }
    assert headings <= headers


def test_a_divergence_in_nats_is_not_written_as_a_percentage():
    (part,) = (part for part in look(small_run("gpt"), "heads", TEXT).parts if isinstance(part, Heatmap))
    assert (part.label, part.unit) == ("Jensen-Shannon divergence", "nats")
