"""Changes without certain heads, against NumPy and the runs' own answers."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.drawing.views import Table
from clew.inspection.heads import heads_off
from clew.instruments.ablation import turned
from clew.instruments.looking import look
from clew.instruments.reading import read
from tests.instruments.small_runs import small_run


def test_a_vector_turned_by_a_right_angle_has_distance_one() -> None:
    before, after = (
        torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]),
        torch.tensor([[0.0, 2.0], [3.0, 3.0], [-1.0, 0.0]]),
    )
    assert turned(before, after).tolist() == pytest.approx([1.0, 0.0, 2.0])


@pytest.mark.parametrize("name", ["gpt", "bert", "transformer"])
def test_the_change_is_between_predictions_with_and_without_the_head(name: str) -> None:
    run, text = small_run(name), "the walls were tall"
    head = "cross.1.1" if name == "transformer" else "1.1"
    target = "tall were" if name == "transformer" else None
    view = look(run, "ablation", {"text": text, "heads": [head], "target": target})
    reading = read(run, text, target)
    with torch.no_grad():
        before = reading.model.scores_tokens(reading).output(reading.hidden())[0].double().softmax(-1).numpy()
        with heads_off(run, [head]):
            after = reading.model.scores_tokens(reading).output(reading.hidden())[0].double().softmax(-1).numpy()
    assert view.facts["bits"] == pytest.approx((before * np.log2(before / after)).sum(1).tolist(), abs=1e-5)
    assert view.facts["mean_bits"] > 0 and view.title == f"Without {head}"


def test_a_classifiers_labels_are_shown_before_and_after() -> None:
    run = small_run("heads")
    view = look(run, "ablation", {"text": "the walls were tall", "heads": ["1.1"]})
    with heads_off(run, ["1.1"]):
        without = run.classify("the walls were tall").probabilities
    assert view.facts["labels"]["before"] == pytest.approx(dict(run.classify("the walls were tall").probabilities))
    assert view.facts["labels"]["after"] == pytest.approx(dict(without))
    assert max(view.facts["turned"]) > 0


@pytest.mark.parametrize(
    "name, heads, sentence",
    [
        ("gpt", [], "name the heads to switch off, such as heads=1.1,2.3; the instrument attention shows them"),
        ("gpt", ["9.9"], "unknown head '9.9'"),
        ("lstm", ["1.1"], "no attention"),
    ],
)
def test_unknown_heads_are_rejected(name: str, heads: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        look(small_run(name), "ablation", {"text": "the walls", "heads": heads})


def test_a_small_change_is_not_rounded_to_zero():
    view = look(small_run("gpt"), "ablation", {"text": "the walls", "heads": ["1.1"]})
    table = next(part for part in view.parts if isinstance(part, Table))
    assert view.facts["mean_bits"] > 0 and all(row[-1] > 0 for row in table.rows if view.facts["bits"][row[0] - 1] > 0)
