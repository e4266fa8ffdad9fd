import json
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.instruments.tracked_cells import prepare, search
from clew.recipes.resolving import config_of
from clew.runs.build import build_task
from clew.runs.loaded import Run
from clew.text.train import train_character
from tests.instruments.small_runs import small_run

TEXT = "he said \u201cgo on\u201d and went.\nshe did (not) say \u201cno\u201d but did so.\n" * 4


@pytest.fixture(scope="module")
def latch() -> Run:
    """An LSTM of three cells set by hand. The second forgets nothing and adds 1 at an opening quotation mark and
    -1 at a closing one: c is 1 inside quotations and 0 outside. The first does nothing; the third adds at every
    character and forgets everything at a newline."""
    tokenizer = train_character([TEXT])
    config = config_of(
        "text-lstm",
        ["model.dim=3", "model.embedding_dim=3", "model.num_layers=1", "data.train=nowhere.txt", "device=cpu"],
    )
    task = build_task(config, {"tokenizer": tokenizer}, to_train=False).eval()
    cell = task.body.layers.layers[0].layer.cell
    with torch.no_grad():
        for parameter in (task.body.embedding.tokens.weight, cell.input_weight, cell.hidden_weight, cell.bias):
            parameter.zero_()
        weight = task.body.embedding.tokens.weight
        weight[:, 2] = 1.0
        for mark, value in (("\u201c", 1.0), ("\u201d", -1.0)):
            weight[tokenizer.encode(mark)[0], 0] = value
        weight[tokenizer.encode("\n")[0], 1] = 1.0
        input_gate, forget_gate, candidate, output_gate = cell.bias.view(4, 3)
        input_gate[1:], forget_gate[1:], output_gate[1:] = 10.0, 10.0, 10.0
        maps = cell.input_weight.view(4, 3, 3)
        maps[2, 1, 0] = 10.0
        maps[2, 2, 2] = 0.02
        maps[1, 2, 1] = -20.0
    return Run(Path("runs/latch"), config, {"tokenizer": tokenizer}, task)


def test_the_cell_that_was_set_to_track_quotations_is_found(latch: Run) -> None:
    half = len(TEXT) // 2
    texts = [prepare(latch, part, ("inside_quotes", "line_position", "space")) for part in (TEXT[:half], TEXT[half:])]
    results = search(latch, *texts)
    best = {one.property: one for one in results.best}
    quotes = best["inside_quotes"]
    assert (quotes.layer, quotes.unit) == ("1", 2)
    assert quotes.skill == quotes.score == quotes.accuracy == 1
    assert quotes.chance < 0.5 < quotes.majority < 1
    assert best["line_position"].unit == 3
    assert best["line_position"].score > 0.8  # it is wrong only at line ends, where it forgets everything
    assert results.silent == {"1": pytest.approx(1 / 3)}  # only the first cell
    assert results.num_units == 3


def test_a_quotation_open_at_the_cut_is_known_and_read(latch: Run) -> None:
    opened = TEXT.index("\u201c") + 2
    judged = prepare(latch, TEXT, ("inside_quotes",), opened)
    assert judged.begin == opened and len(judged.ends) == len(TEXT) - opened and judged.values["inside_quotes"][0]
    assert search(latch, judged, judged).best[0].skill == 1


def test_the_view_has_the_best_cells_and_colours_unseen_text(latch: Run) -> None:
    view = look(latch, "track", {"text": TEXT, "show": 40})
    assert [one["property"] for one in view.facts["best"]][0] == "line_position"
    quoted = next(part for part in view.parts if part.title.startswith("inside_quotes"))
    assert len(quoted.tokens) == 40 and "".join(quoted.tokens) in TEXT
    quoted_text = "".join(token for token, value in zip(quoted.tokens, quoted.values, strict=True) if value >= 0)
    assert quoted_text.startswith("\u201cgo on\u201cno"[:6])
    json.dumps(view.facts, allow_nan=False)
    assert "inside_comment" not in [one["property"] for one in view.facts["best"]]  # prose


def test_unsuitable_requests_are_rejected(latch: Run) -> None:
    with pytest.raises(
        UserError, match="the text has 4 characters, but the search needs at least 200; pass a longer one or none"
    ):
        look(latch, "track", {"text": "four"})
    with pytest.raises(UserError, match="LanguageModel is a module without its own text; pass one as text="):
        look(latch.task, "track", {})
    with pytest.raises(UserError, match="unknown property 'quotes'; did you mean 'inside_quotes'"):
        look(latch, "track", {"text": TEXT, "properties": ["quotes"]})
    with pytest.raises(UserError, match="none of digit varies in both texts; use a longer text or other properties"):
        look(latch, "track", {"text": TEXT, "properties": ["digit"]})
    with pytest.raises(UserError, match="runs/tagger is not a language model"):
        look(small_run("tagger"), "track", {"text": TEXT})
