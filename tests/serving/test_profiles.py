"""Statistics of texts compared with those of training, checked against counts by hand."""

import math
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.runs.loaded import Run
from clew.serving.metrics import FAMILIES, Metrics
from clew.serving.profiles import MOST_PREDICTED, Profile, spread, training_profile
from clew.tasks.classification import CLASSIFY, Classified
from clew.tasks.tagging import TAG, TaggedText, TaggedWord
from clew.tasks.use import Use
from clew.tasks.uses.generate import GENERATE
from clew.tasks.uses.generation import Generated
from tests.instruments.small_runs import small_run


def with_data(run: Run, **fields: Any) -> Run:
    """The same run with other training data."""
    data = run.config.data.model_copy(update=fields)
    return Run(run.folder, run.config.model_copy(update={"data": data}), run.vocabularies, run.task)


def test_the_profile_of_a_classifier_has_labels_lengths_unknown_words_and_confidence(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(
        "text,label\na red fox,good\nthe blue fox,bad\nshe went in,good\na red ball,good\n", encoding="utf-8"
    )
    valid = tmp_path / "valid.csv"
    valid.write_text("text,label\nnothing,bad\n", encoding="utf-8")
    profile = training_profile(
        with_data(small_run("classifier"), train=str(path), valid=str(valid), text="text", label="label")
    )
    assert (profile.texts, profile.tokens, profile.unknown) == (4, 12, 2)  # unknown: blue and ball
    assert profile.labels == {"good": 3, "bad": 1}
    predictions = small_run("classifier").classify(["a red fox", "the blue fox", "she went in", "a red ball"])
    assert math.isclose(
        profile.confidence / profile.confidences,
        sum(max(one.probabilities.values()) for one in predictions) / 4,
        rel_tol=1e-5,
    )
    metrics = Metrics(FAMILIES)
    profile.put(metrics, "x", "training")
    lines = metrics.text().splitlines()
    assert 'clew_label_share{run="x",label="good",of="training"} 0.75' in lines
    assert 'clew_text_tokens_mean{run="x",of="training"} 3' in lines


def test_the_profile_of_a_language_model_has_only_unknown_characters(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("the ball of thread\n" * 50, encoding="utf-8")
    profile = training_profile(with_data(small_run("lstm"), train=str(path)))
    assert profile.unknown == 0 and profile.tokens > 500 and not profile.labels
    metrics = Metrics(FAMILIES)
    profile.put(metrics, "x", "training")
    assert "clew_text_tokens_mean" not in metrics.text() and "clew_unknown_share" in metrics.text()


def test_missing_training_data_is_rejected() -> None:
    for name in ("classifier", "lstm", "bert", "transformer", "tagger"):
        with pytest.raises((UserError, OSError)):
            training_profile(small_run(name))


def confidence_of(use: Use[Any, Any], answer: Any) -> float | None:
    profile = Profile()
    profile.add_answers(use, small_run("tagger"), [answer])
    return profile.confidence if profile.confidences else None


def test_confidence_is_the_mean_probability_of_the_predictions() -> None:
    assert confidence_of(CLASSIFY, Classified("a", ("x",), {"x": 0.75, "y": 0.25})) == 0.75
    assert confidence_of(CLASSIFY, Classified("a", (), {}, 3.5)) is None
    words = [TaggedWord("a", "B-X", 0.5, 0, 1), TaggedWord("b", "O", 0.75, 2, 3)]
    assert confidence_of(TAG, TaggedText("a b", words, [])) == 0.625
    assert confidence_of(GENERATE, [Generated("", "ab", [1, 2], math.log(0.25))]) == pytest.approx(0.5)
    assert confidence_of(CLASSIFY, None) is None


def test_phrase_tags_are_counted_without_their_prefix() -> None:
    run = small_run("tagger")
    profile = Profile()
    tagged = run.tag(["a red fox", "she went"])
    assert profile.add_answers(TAG, run, tagged) == profile.labels
    assert profile.labels.total() == 5 and {*profile.labels} <= {"D", "N"}


@pytest.mark.parametrize(
    "count", [0, 1, MOST_PREDICTED - 1, MOST_PREDICTED, MOST_PREDICTED + 1, 10 * MOST_PREDICTED + 3]
)
def test_sampled_examples_are_spread_over_all(count: int) -> None:
    sampled = spread(range(count), MOST_PREDICTED)
    assert (
        len(sampled) == min(count, MOST_PREDICTED)
        if count <= MOST_PREDICTED
        else MOST_PREDICTED // 2 <= len(sampled) <= MOST_PREDICTED
    )
    assert not sampled or sampled[0] == 0
