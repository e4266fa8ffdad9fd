from pathlib import Path

import pytest

import clew
from clew.core.errors import UserError
from clew.runs.loaded import Run
from clew.tasks.uses.generation import stream
from clew.tasks.uses.writing import DecodingConfig

FROZEN = Path(__file__).parent / "frozen" / "format-1" / "early"


@pytest.fixture(scope="module")
def run() -> Run:
    return clew.load(FROZEN, device="cpu")


def test_repr_of_a_run_describes_its_model(run: Run) -> None:
    assert repr(run) == f"Run({str(FROZEN)!r}: recurrent, 3,861 parameters, 21 characters)"


def test_one_prompt_gives_one_continuation_and_several_give_a_list(run: Run) -> None:
    one = run.generate("the", method="greedy", max_new=9)
    both = run.generate(["the", "Whoever"], method="greedy", max_new=9)
    assert (both[0].tokens, both[0].text) == (one.tokens, one.text)
    assert str(one) == "the" + one.text and len(one.tokens) == 9
    assert str(both[1]) == "Whoever enters t"


def test_n_best_gives_hypotheses_best_first(run: Run) -> None:
    hypotheses = run.generate("Who", method="beam", beams=4, n_best=3, max_new=5)
    assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
    assert len({h.text for h in hypotheses}) == 3
    assert hypotheses[0].text == "ever "


def test_the_seed_determines_a_sample(run: Run) -> None:
    first = run.generate("", seed=1, temperature=3.0, max_new=40)
    assert run.generate("", seed=1, temperature=3.0, max_new=40) == first
    assert run.generate("", seed=2, temperature=3.0, max_new=40) != first


def test_a_sample_does_not_depend_on_the_prompts_beside_it(run: Run) -> None:
    alone = run.generate(["Who"], seed=3, temperature=2.0, max_new=20)[0]
    assert run.generate(["Who", "the thread"], seed=3, temperature=2.0, max_new=20)[0].text == alone.text


@pytest.mark.parametrize("method", ["greedy", "sample"])
def test_streaming_gives_the_generated_text(run: Run, method: str) -> None:
    pieces = list(run.stream("Who", method=method, max_new=30, seed=4))
    assert len(pieces) == 30
    assert "".join(pieces) == run.generate("Who", method=method, max_new=30, seed=4).text


@pytest.mark.parametrize("draft", ["prompt", FROZEN, str(FROZEN), None])
def test_a_draft_leaves_the_text_unchanged(run: Run, draft) -> None:
    draft = run if draft is None else draft
    plain = run.generate("Who", method="greedy", max_new=30)
    drafted = run.generate("Who", method="greedy", max_new=30, draft=draft)
    assert drafted.text == plain.text
    assert drafted.guessed.accepted + drafted.guessed.rounds == 29
    assert draft == "prompt" or drafted.guessed.accepted == drafted.guessed.proposed
    assert "".join(run.stream("Who", method="greedy", max_new=30, draft=draft)) == plain.text
    assert run.ask("generate", ["Who"], method="greedy", max_new=30, draft=draft)[0][0].text == plain.text


def test_beam_search_rejects_a_draft(run: Run) -> None:
    with pytest.raises(UserError) as error:
        run.generate("Who", method="beam", draft="prompt")
    assert str(error.value) == "draft is for sampling and greedy decoding, and method is beam; leave one of them out"


def test_a_draft_must_be_a_run(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        run.generate("Who", draft=tmp_path / "nowhere")


def test_a_beam_cannot_be_streamed(run: Run) -> None:
    message = "beam search chooses only at the end, so it cannot be streamed; use method=sample or greedy"
    with pytest.raises(UserError, match=message):
        run.stream("Who", method="beam")
    by_config = "beam search chooses a text only at the end, so it cannot be streamed; set decoding.method to sample"
    with pytest.raises(UserError, match=by_config):
        next(stream(run.task, "Who", DecodingConfig(method="beam")))


def test_log_probs_of_generated_text_match_its_score(run: Run) -> None:
    generated = run.generate("Who", method="greedy", max_new=12, temperature=1.0)
    scored = run.score(str(generated))
    assert generated.log_prob == pytest.approx(sum(scored.log_probs[2:]), rel=1e-4)


def test_a_scored_text_has_a_log_prob_for_each_token_but_the_first(run: Run) -> None:
    text = "the thread brings"
    scored = run.score(text)
    assert [text[start:stop] for start, stop in scored.offsets] == list(text)
    assert len(scored.log_probs) == len(text) - 1
    assert all(value <= 0 for value in scored.log_probs)
    likelihood = scored.likelihood
    assert (likelihood.nats, likelihood.tokens, likelihood.characters) == (
        -sum(scored.log_probs),
        len(text) - 1,
        len(text) - 1,
    )
    assert (
        repr(scored)
        == f"Scored({len(text)} tokens, {likelihood.nats:.4f} nats: loss {likelihood.loss:.4f} per character)"
    )


def test_scoring_does_not_depend_on_the_chunk_length(run: Run) -> None:
    from clew.tasks.uses.scoring import score_text

    text = "the thread brings them home.\n" * 3
    whole = score_text(run.task, text, 1000, carry=True).log_probs
    assert score_text(run.task, text, 7, carry=True).log_probs == pytest.approx(whole, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temprature": 1.0}, "unknown field 'temprature'; did you mean 'temperature'?"),
        ({"temperature": 0.0}, "temperature must be above 0, not 0.0"),
        ({"method": "bem"}, "method must be one of 'sample', 'greedy' or 'beam', not 'bem'"),
        ({"max_new": True}, "max_new takes a whole number, not True"),
    ],
)
def test_mistakes_in_options_are_reported_in_one_sentence(run: Run, options: dict, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        run.generate("Who", **options)
    assert str(error.value).startswith(sentence)


def test_unreadable_input_is_rejected(run: Run) -> None:
    with pytest.raises(
        UserError, match=r"the prompt has characters the model has never seen: '%' \(U\+0025\); it knows 20"
    ):
        run.generate("the%")
    with pytest.raises(UserError, match="there is no prompt; give at least one"):
        run.generate([])
    with pytest.raises(
        UserError, match="a text needs at least 2 tokens to be scored, one to read and one to predict; found 1"
    ):
        run.score("a")
    classifier = clew.load(FROZEN.parent / "classification" / "run", device="cpu")
    with pytest.raises(UserError, match="classifies texts, not trees; call `classify` with texts"):
        classifier.classify_trees("(S (A a) (B b))")
    with pytest.raises(UserError, match="unknown device 'gpu'"):
        clew.load(FROZEN, device="gpu")
