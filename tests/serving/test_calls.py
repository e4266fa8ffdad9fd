"""Requests that may be answered together, and requests that a run accepts."""

from typing import Any

import pytest

from clew.core.errors import UserError
from clew.serving.calls import call_of
from clew.tasks import TASKS, USES
from tests.instruments.small_runs import small_run


def key(name: str, verb: str, **body: Any) -> Any:
    return call_of(small_run(name), verb, {"text": "the", **body}).key


def test_requests_with_equal_options_have_the_same_key() -> None:
    own = small_run("lstm").config.decoding
    assert key("lstm", "generate") == key(
        "lstm", "generate", text="she", max_new=own.max_new, temperature=own.temperature
    )
    assert key("lstm", "generate") != key("lstm", "generate", max_new=own.max_new + 1)
    assert key("lstm", "generate") != key("lstm", "generate", seed=7)
    assert key("lstm", "generate") != key("gpt", "generate")
    assert key("lstm", "generate") != key("lstm", "embed")
    assert key("answerer", "answer", passage="a red fox") == key("answerer", "answer", passage="she went in")


def test_beams_select_beam_search() -> None:
    run = small_run("attentive")
    assert call_of(run, "translate", {"text": "the", "beams": 7}).options.method == "beam"
    with pytest.raises(UserError, match="n_best is for beam search, and method is greedy; leave one of them out"):
        call_of(run, "translate", {"text": "the", "n_best": 3, "method": "greedy"})


def test_samples_do_not_depend_on_other_rows_of_the_batch() -> None:
    for name, verb in (("attentive", "translate"), ("lstm", "generate")):
        assert key(name, verb, method="sample") == key(name, verb, method="sample")
        call = call_of(
            small_run(name), verb, {"texts": ["the walls", "she went in"], "method": "sample", "temperature": 2.0}
        )
        both = call.answer(call.rows, [1, 2])
        alone = [call.answer([row], [number])[0] for number, row in enumerate(call.rows, start=1)]
        assert [answer[0].text for answer in both] == [answer[0].text for answer in alone]


def texts(name: str, verb: str, **body: Any) -> list[Any]:
    return [tuple(row.model_dump().values()) for row in call_of(small_run(name), verb, body).rows]


def test_samples_are_separate_rows() -> None:
    assert texts("lstm", "generate", texts=["a", "b"], samples=2) == [("a",), ("a",), ("b",), ("b",)]


def test_a_second_text_makes_a_pair() -> None:
    assert texts("bert", "fill", text="a", second="b") == [("a", "b")] == texts("bert", "fill", texts=[["a", "b"]])
    assert texts("bert", "fill", texts=[{"text": "a", "second": "b"}, "c"]) == [("a", "b"), ("c", None)]


def test_a_field_beside_several_texts_applies_to_all() -> None:
    rows = texts("answerer", "answer", texts=["who ?", {"question": "where ?"}], passage="she went in")
    assert [row[:2] for row in rows] == [("who ?", "she went in"), ("where ?", "she went in")]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"text": "who ?"}, "passage must be given"),
        ({"text": "who ?", "passage": " "}, "the passage is empty"),
        ({"texts": ["who ?", ""], "passage": "she went"}, "question 2 is empty"),
        ({"text": "who ?", "passage": "a" * 10_001}, "passage has 10,001 characters"),
        ({"text": "who ?", "passage": "she went", "n_best": 65}, "n_best must be at most 64"),
    ],
)
def test_questions_need_a_passage(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        call = call_of(small_run("answerer"), "answer", body)
        call.answer(call.rows, range(1, len(call.rows) + 1))


def test_every_use_describes_its_fields_and_runs_list_their_uses() -> None:
    for use in [
        *(use for entry in TASKS.values() for use in entry.uses.values()),
        *(shared.use for shared in USES.values()),
    ]:
        for name, field in {**use.row.model_fields, **use.options.model_fields}.items():
            assert field.description, name
    assert list(small_run("lstm").uses) == ["generate", "classify", "embed"]
    assert list(small_run("elmo").uses) == ["embed"]
    assert list(small_run("parser").uses) == ["parse", "embed"]


def test_a_language_model_chooses_the_likeliest_label() -> None:
    call = call_of(small_run("lstm"), "classify", {"text": "the", "choices": ["walls", "door"]})
    [row] = call.objects(call.answer(call.rows, [1]))
    assert row["label"] in ("walls", "door") and sum(row["probabilities"].values()) == pytest.approx(1)
