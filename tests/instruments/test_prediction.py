"""The prediction instrument shows the answers of the run's own verb."""

from pathlib import Path

import pytest

import clew
from clew.core.errors import UserError
from clew.inspection.heads import heads_off
from clew.instruments.looking import look
from tests.instruments.small_runs import small_run


@pytest.mark.parametrize("name", ["classifier", "heads"])
def test_a_text_is_shown_with_the_classifiers_probabilities(name: str) -> None:
    run = small_run(name)
    view = look(run, "prediction", {"text": "the walls were tall"})
    answer = run.classify("the walls were tall")
    assert view.facts["probabilities"] == pytest.approx(dict(answer.probabilities))
    assert list(view.facts["probabilities"])[0] == view.facts["labels"][0] == answer.labels[0]


def test_switched_off_heads_are_off() -> None:
    run = small_run("heads")
    view = look(run, "prediction", {"text": "the walls were tall", "off": ["1.1"]})
    with heads_off(run, ["1.1"]):
        assert view.facts["probabilities"] == pytest.approx(dict(run.classify("the walls were tall").probabilities))


def test_words_are_shown_with_the_taggers_tags() -> None:
    run = small_run("tagger")
    view = look(run, "prediction", {"text": "the walls were tall"})
    assert [(word, tag) for word, tag, _ in view.facts["tags"]] == [
        (word.word, word.tag) for word in run.tag("the walls were tall").words
    ]


def test_one_text_is_rejected_by_a_run_on_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1] / "runs" / "frozen" / "format-1")
    run = clew.load("classification_pairs/run", device="cpu")
    with pytest.raises(UserError, match="run judges two texts together; give the other one as second="):
        look(run, "prediction", {"text": "the walls"})


@pytest.mark.parametrize(
    "name, options, sentence",
    [
        ("lstm", {"text": "the"}, "runs/lstm predicts no labels; instruments that can: tokens, surprisal, next"),
        ("classifier", {"text": "  "}, "there is no text to read"),
        ("classifier", {"text": "the", "second": "walls"}, "one text"),
    ],
)
def test_unsuitable_runs_and_texts_are_rejected(name: str, options: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        look(small_run(name), "prediction", options)
