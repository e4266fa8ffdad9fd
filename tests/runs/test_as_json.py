"""The objects of `--json`, from answers made by hand."""

import numpy as np

from clew.runs import as_json
from clew.tasks.answer_spans import AnsweredQuestion, AnswerSpan
from clew.tasks.classification import Classified
from clew.tasks.generation import Generated
from clew.tasks.text_vectors import TokenVectors
from clew.tasks.translation import Translation


def test_the_continuations_of_a_prompt_have_a_score_where_beams_chose_them() -> None:
    found = as_json.generated(1, "a", [Generated("a", "b", [1], -0.5), Generated("a", "c", [2], -1.0, -0.25)])
    assert found == [
        {"prompt": "a", "text": "b", "tokens": [1], "log_prob": -0.5},
        {"prompt": "a", "text": "c", "tokens": [2], "log_prob": -1.0, "score": -0.25},
    ]


def test_several_translations_are_ranked() -> None:
    one, other = (Translation("a", text, [1], -1.0, -0.5) for text in "bc")
    assert [(each["line"], each["rank"], each["text"]) for each in as_json.translated(4, "a", [one, other])] == [(4, 1, "b"), (4, 2, "c")]
    assert as_json.translated(4, "a", one)[0]["rank"] == 1


def test_what_is_empty_has_no_answer() -> None:
    assert as_json.classified(2, "", None) == [{"line": 2, "text": "", "label": None}]
    assert as_json.filled(2, "", None) == [{"line": 2, "text": "", "masks": []}]
    assert as_json.parsed(2, "", None) == [{"line": 2, "rank": 1, "sentence": "", "tree": None}]


def test_a_classifier_tells_labels_or_a_number() -> None:
    told = as_json.classified(1, "a", Classified("a", ("x",), {"x": 0.75, "y": 0.25}))
    assert told == [{"line": 1, "text": "a", "label": "x", "labels": ("x",), "probabilities": {"x": 0.75, "y": 0.25}}]
    assert as_json.classified(1, "a", Classified("a", (), {}, 3.5, "b")) == [{"line": 1, "text": "a", "second": "b", "number": 3.5}]


def test_an_answer_has_its_place_and_other_pieces_where_several_are_asked_for() -> None:
    span = AnswerSpan("Rome", 13, 17, 0.5)
    found = AnsweredQuestion("question 1", "Where?", span, (span,), 0.25)
    (one,) = as_json.answered(1, "Where?", found)
    assert (one["answer"], one["start"], one["stop"], one["no_answer"]) == ("Rome", 13, 17, 0.25) and "n_best" not in one
    assert as_json.answered(1, "Where?", found, 2)[0]["n_best"] == [{"text": "Rome", "start": 13, "stop": 17, "probability": 0.5}]
    assert as_json.answered(1, "Where?", found.__class__("question 1", "Where?", None, (), 0.75))[0]["answer"] is None


def test_vectors_are_of_a_text_or_of_its_tokens() -> None:
    assert as_json.embedded(1, "ab", np.array([0.5, 1.0])) == [{"line": 1, "text": "ab", "vector": [0.5, 1.0]}]
    (one,) = as_json.embedded(1, "ab", TokenVectors(np.array([[0, 1], [1, 2]]), np.array([[1.0], [2.0]])))
    assert one["tokens"] == [
        {"token": "a", "start": 0, "stop": 1, "vector": [1.0]},
        {"token": "b", "start": 1, "stop": 2, "vector": [2.0]},
    ]
