"""The objects that `--json` prints, from handmade answers."""

import numpy as np

from clew.tasks.classification import CLASSIFY, Classified
from clew.tasks.parsing import PARSE, WordsRow
from clew.tasks.question_answering import ANSWER, AnsweredQuestion, AnswerOptions, AnswerSpan, QuestionRow
from clew.tasks.translation import TRANSLATE, TranslateOptions, Translation
from clew.tasks.use import Options, PairRow, TextRow
from clew.tasks.uses.filling import FILL
from clew.tasks.uses.generate import GENERATE
from clew.tasks.uses.generation import Generated
from clew.tasks.uses.text_vectors import EMBED, EmbedOptions, TokenVectors


def test_continuations_have_a_score_only_with_beam_search() -> None:
    objects = GENERATE.objects(
        1, TextRow(text="a"), [Generated("a", "b", [1], -0.5), Generated("a", "c", [2], -1.0, -0.25)], None
    )
    assert objects == [
        {"prompt": "a", "text": "b", "tokens": [1], "log_prob": -0.5},
        {"prompt": "a", "text": "c", "tokens": [2], "log_prob": -1.0, "score": -0.25},
    ]


def test_several_translations_are_ranked() -> None:
    one, other = (Translation("a", text, [1], -1.0, -0.5) for text in "bc")
    assert [
        (each["line"], each["rank"], each["text"])
        for each in TRANSLATE.objects(4, TextRow(text="a"), [one, other], TranslateOptions())
    ] == [(4, 1, "b"), (4, 2, "c")]


def test_empty_texts_have_no_answer() -> None:
    assert CLASSIFY.objects(2, PairRow(text=""), None, Options()) == [{"line": 2, "text": "", "label": None}]
    assert FILL.objects(2, PairRow(text=""), None, Options()) == [{"line": 2, "text": "", "masks": []}]
    assert PARSE.objects(2, WordsRow(text=""), None, Options()) == [
        {"line": 2, "rank": 1, "sentence": "", "tree": None}
    ]


def test_a_classifier_returns_labels_or_a_number() -> None:
    answer = CLASSIFY.objects(1, PairRow(text="a"), Classified("a", ("x",), {"x": 0.75, "y": 0.25}), Options())
    assert answer == [{"line": 1, "text": "a", "label": "x", "labels": ("x",), "probabilities": {"x": 0.75, "y": 0.25}}]
    answer = CLASSIFY.objects(1, PairRow(text="a"), Classified("a", (), {}, 3.5, "b"), Options())
    assert answer == [{"line": 1, "text": "a", "second": "b", "number": 3.5}]


def test_an_answer_has_its_place_and_lists_several_on_request() -> None:
    span = AnswerSpan("Rome", 13, 17, 0.5)
    answered = AnsweredQuestion("question 1", "Where?", span, (span,), 0.25)
    row, options = QuestionRow(question="Where?", passage="Ada lives in Rome"), AnswerOptions()
    (one,) = ANSWER.objects(1, row, answered, options)
    assert (one["answer"], one["start"], one["stop"], one["no_answer"]) == (
        "Rome",
        13,
        17,
        0.25,
    ) and "n_best" not in one
    several = ANSWER.objects(1, row, answered, AnswerOptions(n_best=2))
    assert several[0]["n_best"] == [{"text": "Rome", "start": 13, "stop": 17, "probability": 0.5}]
    assert (
        ANSWER.objects(1, row, AnsweredQuestion("question 1", "Where?", None, (), 0.75), options)[0]["answer"] is None
    )


def test_vectors_are_for_a_text_or_its_tokens() -> None:
    assert EMBED.objects(1, TextRow(text="ab"), np.array([0.5, 1.0]), EmbedOptions()) == [
        {"line": 1, "text": "ab", "vector": [0.5, 1.0]}
    ]
    vectors = TokenVectors(np.array([[0, 1], [1, 2]]), np.array([[1.0], [2.0]]))
    (one,) = EMBED.objects(1, TextRow(text="ab"), vectors, EmbedOptions())
    assert one["tokens"] == [
        {"token": "a", "start": 0, "stop": 1, "vector": [1.0]},
        {"token": "b", "start": 1, "stop": 2, "vector": [2.0]},
    ]
