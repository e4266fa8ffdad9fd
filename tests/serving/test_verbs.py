"""Which requests may be answered together, and what a run may be asked."""

from typing import Any

import pytest

from clew.core.errors import UserError
from clew.serving.verbs import SERVED, call_of, served_verbs
from tests.instruments.small_runs import small_run


def key(name: str, verb: str, **body: Any) -> Any:
    return call_of(small_run(name), verb, {"text": "the", **body}).key


def test_requests_with_equal_options_have_one_key_whether_they_name_them_or_not() -> None:
    own = small_run("lstm").config.decoding
    assert key("lstm", "generate") == key("lstm", "generate", text="she", max_new=own.max_new, temperature=own.temperature)
    assert key("lstm", "generate") != key("lstm", "generate", max_new=own.max_new + 1)
    assert key("lstm", "generate") != key("lstm", "generate", seed=7)
    assert key("lstm", "generate") != key("gpt", "generate")
    assert key("lstm", "generate") != key("lstm", "embed")
    assert key("answerer", "answer", passage="a red fox") == key("answerer", "answer", passage="she went in")


def test_beams_ask_a_translator_for_beam_search() -> None:
    run = small_run("attentive")
    assert call_of(run, "translate", {"text": "the", "beams": 7}).asked.method == "beam"
    with pytest.raises(UserError, match="n_best=3 is for beam search; with method=greedy one is found"):
        call_of(run, "translate", {"text": "the", "n_best": 3, "method": "greedy"})


def test_translations_that_are_sampled_are_never_put_together() -> None:
    assert key("attentive", "translate", method="sample") != key("attentive", "translate", method="sample")
    assert key("lstm", "generate", method="sample") == key("lstm", "generate", method="sample")


def test_samples_are_rows_of_their_own() -> None:
    assert call_of(small_run("lstm"), "generate", {"texts": ["a", "b"], "samples": 2}).rows == ["a", "a", "b", "b"]


def test_a_second_text_makes_a_pair() -> None:
    call = call_of(small_run("bert"), "fill", {"text": "a", "second": "b"})
    assert call.rows == [("a", "b")] == call_of(small_run("bert"), "fill", {"texts": [["a", "b"]]}).rows


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
        call_of(small_run("answerer"), "answer", body)


def test_every_verb_describes_each_of_its_options_and_runs_have_theirs() -> None:
    for verb in SERVED.values():
        for name, field in verb.asked.model_fields.items():
            assert field.description or name in ("method", "beams"), name
    assert served_verbs(small_run("lstm")) == ["generate", "embed"]
    assert served_verbs(small_run("elmo")) == ["embed"]
    assert served_verbs(small_run("parser")) == ["parse", "embed"]
