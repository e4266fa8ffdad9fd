import pytest
import torch

import clew
from clew.core.errors import UserError
from clew.instruments.cells import liveliest
from clew.instruments.looking import look
from clew.instruments.subjects.recurrent_layers import recurrent_layers
from clew.layers.cells import CELLS
from clew.layers.recurrent import Recurrent
from tests.instruments.small_runs import small_run

TEXT = "the ball"


def test_cells_are_named_by_layer_half_and_direction() -> None:
    names = {
        name: [layer.name for layer in recurrent_layers(small_run(name))]
        for name in ("lstm", "elmo", "attentive", "gpt", "tagger")
    }
    assert names["lstm"] == ["1"]
    assert names["elmo"] == ["1.forward", "2.forward", "1.backward", "2.backward"]
    assert names["attentive"] == ["encoder.1.forward", "encoder.1.backward", "decoder.1"]
    assert names["gpt"] == []
    assert names["tagger"] == ["1.forward", "1.backward"]


def test_the_keeping_gate_of_a_cell_is_its_forget_or_update_gate() -> None:
    keeping = {name: recurrent_layers(Recurrent(cell(3, 4)))[0].keeping for name, cell in CELLS.items()}
    assert keeping.pop("elman") is None
    assert keeping.pop("gru") == "cell.gates.update"
    assert set(keeping.values()) == {"cell.gates.forget"}


def test_the_liveliest_cell_has_the_most_widely_spread_values() -> None:
    assert liveliest(torch.tensor([[0.0, 1.0, 5.0], [0.1, -1.0, 5.0]]), 2) == [2, 1]


def test_a_text_is_coloured_by_the_tanh_of_a_cells_memory() -> None:
    run = small_run("lstm")
    view = look(run, "cells", {"text": TEXT, "units": [3]})
    with torch.no_grad(), clew.record(run, "*.cell_state") as recorded:
        run.task.body(torch.tensor([run.task.encode(TEXT)]))
    expected = recorded["*.cell_state"][0, :, 2].tanh()
    assert view.facts["units"]["3"] == pytest.approx(expected.tolist(), abs=1e-4)
    assert view.facts["tokens"] == list(TEXT)
    text, cells = view.parts
    assert text.joined and list(text.tokens) == list(TEXT)
    assert cells.values.shape == (16, len(TEXT))


@pytest.mark.parametrize("name", ["elman", "words", "elmo", "attentive", "classifier", "tagger"])
def test_every_kind_of_recurrent_run_has_cells(name: str) -> None:
    for layer in recurrent_layers(small_run(name)):
        view = look(
            small_run(name),
            "cells",
            {"text": "the walls were tall", "target": "tall" if name == "attentive" else None, "layer": layer.name},
        )
        assert view.facts["tokens"] and all(
            len(values) == len(view.facts["tokens"]) for values in view.facts["units"].values()
        )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "gpt",
            {},
            (
                "runs/gpt has no recurrent layer with cells that can be watched; instruments that can: tokens,"
                " surprisal, next"
            ),
        ),
        ("lstm", {"units": [17]}, "layer 1 has the cells 1 to 16; there is no cell 17"),
        ("lstm", {"layer": "3"}, "unknown recurrent layer '3'; known: 1"),
        ("lstm", {"text": ""}, "there is no text to read"),
    ],
)
def test_unsuitable_models_and_cells_are_rejected(name: str, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        look(small_run(name), "cells", {"text": TEXT, **options})
