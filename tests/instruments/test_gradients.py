from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.instruments.gradients import MOST_READ, GradientOptions, text_of
from clew.instruments.looking import look
from clew.runs.loaded import Run
from tests.instruments.small_runs import small_run

TEXT = "the walls were tall and all the turns were the same"


@pytest.mark.parametrize(
    "name", ["elman", "lstm", "gpt", "llama", "bert", "elmo", "attentive", "transformer", "classifier", "tagger"]
)
def test_a_run_is_compared_with_its_initialisation(name: str) -> None:
    target = "tall were walls the" if name in ("attentive", "transformer") else None
    text = TEXT[:30] if name == "gpt" else TEXT
    facts = look(small_run(name), "gradients", {"text": text, "target": target, "steps": 4, "places": 2}).facts
    assert facts["trained"].keys() == facts["untrained"].keys() and "x" in facts["trained"]
    for part, curve in facts["trained"].items():
        assert curve == pytest.approx(facts["untrained"][part], rel=1e-4, abs=1e-9)
        assert curve[0] > 0 and all(value >= 0 for value in curve)
    assert facts["of"] == ("|h_t|" if name in ("elmo", "classifier", "tagger") else "loss_t")


def test_gradients_are_taken_through_carried_states() -> None:
    """An Elman network carries h, an LSTM h and c, a decoder its own states; bidirectional and attention-only models
    carry nothing."""

    def parts(name: str, target: str | None = None) -> list[str]:
        options = {"text": TEXT[:30], "target": target, "steps": 2, "places": 1, "untrained": False}
        return list(look(small_run(name), "gradients", options).facts["trained"])

    assert parts("elman") == ["1 h", "x"]
    assert parts("lstm") == ["1 h", "1 c", "x"]
    assert parts("attentive", "tall were walls") == ["decoder.1 h", "decoder.1 c", "x"]
    assert parts("elmo") == parts("gpt") == ["x"]


def test_gradients_by_states_and_inputs_vanish_alike_in_an_elman_network() -> None:
    """x_{t-k} affects t only through h_{t-k}, so that both gradients fall at about the same rate; radius and reach are
    reported."""
    facts = look(small_run("elman"), "gradients", {"text": TEXT, "steps": 6, "untrained": False}).facts
    by_state, by_input = facts["trained"]["1 h"], facts["trained"]["x"]
    assert by_state[6] < by_state[0] and by_input[6] < by_input[0]
    assert set(facts["radius"]["1"]) == {"hidden"}
    assert facts["reach"]["trained"]["1 h"] in (None, *range(1, 7))


def test_a_language_model_reads_the_beginning_of_a_long_text() -> None:
    text = "the walls " * 2 * MOST_READ
    assert text_of(small_run("lstm"), GradientOptions(text=text)) == text[:MOST_READ]
    assert len(text_of(small_run("lstm"), GradientOptions(text=text, steps=MOST_READ))) == 2 * MOST_READ + 11
    assert text_of(small_run("lstm"), GradientOptions(text="the walls")) == "the walls"


def test_too_short_texts_are_rejected() -> None:
    with pytest.raises(UserError, match="gradients need at least 3 places, and this text has 2; give a longer one"):
        look(small_run("lstm"), "gradients", {"text": "the"})


def test_a_language_model_uses_its_own_text_by_default(tmp_path: Path) -> None:
    run = small_run("lstm")
    (tmp_path / "train.txt").write_text(TEXT * 40, encoding="utf-8")
    data = run.config.data.model_copy(update={"train": str(tmp_path / "train.txt"), "valid_fraction": 0.2})
    own = Run(run.folder, run.config.model_copy(update={"data": data}), run.vocabularies, run.task)
    assert text_of(own, GradientOptions(steps=5, places=2)) == (TEXT * 40)[int(len(TEXT * 40) * 0.8) :][:13]
    with pytest.raises(UserError, match="nowhere.txt.*; this is the run's own text; pass another"):
        look(run, "gradients", {})
    with pytest.raises(UserError, match="nowhere.txt.*; this is the run's own text; pass another"):
        look(run, "track", {})
