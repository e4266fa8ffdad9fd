"""The explained score is the run's own, on every kind of run; and the attribution instrument."""

import pytest
import torch

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.instruments.attributing import explain
from clew.instruments.looking import look
from clew.instruments.subjects.subject import subject_of
from clew.tasks.offers import ModelInput
from tests.instruments.small_runs import small_run

TEXT = "the walls were tall"


def explained(name, text=TEXT, of=None, place=None, target=None):
    return explain(subject_of(small_run(name)), ModelInput(text, target), of, place)


def score_of(case):
    with evaluating([case.module]):
        return float(case.score(case.inputs)[0])


def test_the_score_is_the_runs_own():
    classifier = small_run("classifier")
    answer = classifier.classify(TEXT)
    logits = torch.tensor([score_of(explained("classifier", of=label)) for label in classifier.task.labels.names])
    probabilities = (logits / classifier.task.answer.temperature).softmax(0).tolist()
    assert dict(zip(classifier.task.labels.names, probabilities, strict=True)) == pytest.approx(
        answer.probabilities, abs=1e-5
    )
    for name in ("lstm", "gpt"):
        run = small_run(name)
        assert score_of(explained(name, "the wall", of="s")) == pytest.approx(
            run.score("the walls").log_probs[-1], abs=1e-5
        )
    bert = small_run("bert")
    guess = bert.fill("the [MASK] were [MASK]", top=1).masks[1][0]
    case = explained("bert", "the [MASK] were [MASK]", place=2)
    assert (
        torch.tensor(score_of(case)).exp().item() == pytest.approx(guess.probability, abs=1e-5)
        and repr(guess.token) in case.what
    )
    for name in ("attentive", "transformer"):
        scored = small_run(name).score_translation(TEXT, "tall were")
        for place, log_prob in enumerate(scored.log_probs, start=1):
            assert score_of(explained(name, place=place, target="tall were")) == pytest.approx(log_prob, abs=1e-5)
    tagger = small_run("tagger")
    tags = [
        max(tagger.task.tags.names, key=lambda tag: score_of(explained("tagger", of=tag, place=place)))
        for place in (1, 2, 3, 4)
    ]
    assert tags[1] in explained("tagger", place=2).what


@pytest.mark.parametrize(
    "name",
    ["elman", "lstm", "words", "gpt", "llama", "bert", "classifier", "heads", "tagger", "attentive", "transformer"],
)
def test_given_vectors_give_the_same_score_and_rows_are_independent(name):
    case = explained(
        name,
        "the [MASK] were tall" if name == "bert" else TEXT,
        target="tall were" if name in ("attentive", "transformer") else None,
    )
    with evaluating([case.module]):
        x, other = case.vectors(), torch.zeros_like(case.vectors())
        scores = case.of_vectors(torch.stack([x, other, x]))
        torch.testing.assert_close(scores[0], case.score(case.inputs)[0])
        torch.testing.assert_close(scores[2], scores[0])
        torch.testing.assert_close(scores[1], case.of_vectors(other[None])[0])


@pytest.mark.parametrize("name", ["lstm", "gpt", "bert", "classifier", "transformer"])
def test_integrated_gradients_of_runs_are_complete(name):
    text = "the [MASK] were tall" if name == "bert" else TEXT
    facts = look(small_run(name), "attribution", {"text": text, "steps": 100}).facts
    assert sum(facts["values"]) == pytest.approx(facts["score"] - facts["baseline_score"], abs=2e-3)
    assert len(facts["values"]) == len(facts["tokens"])


def test_an_occluded_token_is_read_as_the_substitute():
    run, text = small_run("classifier"), "she went in"
    facts = look(run, "attribution", {"text": text, "method": "occlusion", "of": "good"}).facts
    replaced = [
        score_of(explained("classifier", changed, of="good")) for changed in ("xx went in", "she xx in", "she went xx")
    ]
    assert facts["values"] == pytest.approx([facts["score"] - score for score in replaced], abs=1e-5)
    facts = look(run, "attribution", {"text": text, "method": "occlusion", "of": "good", "occlude": "remove"}).facts
    removed = [score_of(explained("classifier", changed, of="good")) for changed in ("went in", "she in", "she went")]
    assert facts["values"] == pytest.approx([facts["score"] - score for score in removed], abs=1e-5)


def test_special_tokens_around_a_text_are_never_occluded():
    facts = look(small_run("bert"), "attribution", {"text": "the [MASK] were tall", "method": "occlusion"}).facts
    values = dict(zip(facts["tokens"], facts["values"], strict=True))
    assert values["[CLS]"] == values["[SEP]"] == values["[MASK]"] == 0 and max(map(abs, facts["values"])) > 0


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("elmo", {}, "has no single score to explain"),
        (
            "gpt",
            {"place": 2},
            "place selects a tagged word, a generated token or a mask, and this model has none of these; leave it out",
        ),
        ("gpt", {"target": "a"}, "writes no target; leave target= out"),
        ("classifier", {"second": "a"}, "reads one text; leave second= out"),
        ("gpt", {"of": "the walls"}, "of='the walls' must be one token that the model knows; it is 9 tokens"),
        ("classifier", {"of": "god"}, "unknown label 'god'; did you mean 'good'"),
        ("classifier", {"text": "  "}, "there is no text to read"),
        ("tagger", {"place": 9}, "there is no word 9; the text has 4"),
        ("tagger", {"method": "occlusion", "occlude": "remove"}, "set occlude=replace"),
        ("transformer", {"target": "tall", "place": 3}, "there is no token 3 in the target; it has 2"),
        ("bert", {"text": "the [MASK]", "place": 2}, "there is no mask 2; the text has 1"),
        (
            "lstm",
            {"text": "a", "method": "occlusion", "occlude": "remove"},
            "a text needs at least two tokens for one to be removed; give a longer text",
        ),
    ],
)
def test_unsuitable_requests_are_rejected(name, options, sentence):
    with pytest.raises(UserError, match=sentence):
        look(small_run(name), "attribution", {"text": TEXT, **options})
