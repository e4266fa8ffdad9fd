"""What a run makes of a text is what its own verb says."""

from pathlib import Path

import pytest

import clew
from clew.core.errors import UserError
from clew.inspection.heads import heads_off
from clew.instruments.looking import look
from tests.instruments.small_runs import small_run


@pytest.mark.parametrize("name", ["classifier", "heads"])
def test_a_text_has_the_classifiers_probabilities(name: str) -> None:
    run = small_run(name)
    found = look(run, "prediction", {"text": "the walls were tall"})
    said = run.classify("the walls were tall")
    assert found.facts["probabilities"] == pytest.approx(dict(said.probabilities))
    assert list(found.facts["probabilities"])[0] == found.facts["labels"][0] == said.labels[0]


def test_heads_that_are_off_are_off() -> None:
    run = small_run("heads")
    found = look(run, "prediction", {"text": "the walls were tall", "off": ["1.1"]})
    with heads_off(run, ["1.1"]):
        assert found.facts["probabilities"] == pytest.approx(dict(run.classify("the walls were tall").probabilities))


def test_words_have_the_taggers_tags() -> None:
    run = small_run("tagger")
    found = look(run, "prediction", {"text": "the walls were tall"})
    assert [(word, tag) for word, tag, _ in found.facts["tags"]] == [
        (word.word, word.tag) for word in run.tag("the walls were tall").words
    ]


def test_one_text_for_a_run_on_pairs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_cannot_be_judged_is_refused(name: str, options: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        look(small_run(name), "prediction", options)
