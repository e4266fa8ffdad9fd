import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.drafts import DraftStepper, PromptLookup, Proposal
from clew.decoding.ensemble import Ensemble
from clew.decoding.filters import with_filters
from clew.decoding.forced_end import ForcedEnd
from clew.decoding.sampling import greedy_sequences, sample_sequences
from clew.decoding.sliding import Sliding
from clew.decoding.speculative import LONGEST, judge, speculative, speculative_sequences
from tests.decoding.drafts import AGREEMENT, Scripted
from tests.decoding.steppers import Attending, Recurrent, Transition, Translator, padded

ROWS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=4)
TABLE = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.4, 0.1], [0.0, 0.5, 0.2, 0.3], [0.25, 0.25, 0.5, 0.0]]
OTHER = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7], [0.3, 0.1, 0.3, 0.3], [0.2, 0.2, 0.2, 0.4]]


STEPPERS = {
    "recurrent": lambda seed: Recurrent(5, seed),
    "attending": lambda seed: Attending(5, seed),
    "ensemble": lambda seed: Ensemble([Recurrent(5, seed), Attending(5, seed)]),
    "sliding": lambda seed: Sliding(Recurrent(5, seed, positions=6), limit=6, keep=3),
    "sliding attention": lambda seed: Sliding(Attending(5, seed), limit=6, keep=2),
    "filtered": lambda seed: with_filters(
        Recurrent(5, seed), repetition_penalty=1.3, no_repeat_ngram=3, temperature=0.8, banned=[3]
    ),
    "filtered attention": lambda seed: with_filters(
        Attending(5, seed), repetition_penalty=1.3, no_repeat_ngram=3, top_k=4
    ),
    "forced end": lambda seed: ForcedEnd(Attending(5, seed), end=0, max_new=9, prompt=3),
}


@pytest.mark.parametrize("agreement", AGREEMENT)
@pytest.mark.parametrize("name", STEPPERS)
@settings(deadline=None, max_examples=4)
@given(rows=ROWS, seed=st.integers(0, 99), chunk=st.integers(1, LONGEST), end=st.sampled_from([None, 0, [0, 2]]))
def test_greedy_tokens_equal_plain_decoding_with_any_guesses(name, agreement, rows, seed, chunk, end):
    stepper = STEPPERS[name](seed)
    prompt, mask = padded(rows)
    plain = greedy_sequences(stepper, prompt, mask, max_new=13, end=end)
    draft = Scripted(plain.tokens, 5, AGREEMENT[agreement])
    generated, acceptance = speculative_sequences(stepper, draft, prompt, mask, max_new=13, end=end, chunk=chunk)
    assert generated.tokens.tolist() == plain.tokens.tolist()
    assert generated.lengths.tolist() == plain.lengths.tolist()
    torch.testing.assert_close(generated.log_probs, plain.log_probs)
    # the draft's rows are those of the text only if no row ends before it starts
    if agreement == "never" and (plain.lengths > 1).all():
        assert not acceptance.accepted.any()
        assert (acceptance.rounds == plain.lengths - 1).all()
    if agreement == "always" and end is None:
        assert (acceptance.accepted == acceptance.proposed).all()


@pytest.mark.parametrize(
    "draft", [lambda seed: DraftStepper(Recurrent(5, seed)), lambda seed: DraftStepper(Attending(5, seed))]
)
@pytest.mark.parametrize("name", STEPPERS)
@settings(deadline=None, max_examples=4)
@given(rows=ROWS, seed=st.integers(0, 99), own=st.integers(0, 99))
def test_greedy_tokens_equal_plain_decoding_with_another_model_as_draft(name, draft, rows, seed, own):
    stepper = STEPPERS[name](seed)
    plain = greedy_sequences(stepper, *padded(rows), max_new=13, end=0)
    generated, _ = speculative_sequences(stepper, draft(own), *padded(rows), max_new=13, end=0)
    assert generated.tokens.tolist() == plain.tokens.tolist()
    assert generated.lengths.tolist() == plain.lengths.tolist()


@pytest.mark.parametrize("name", STEPPERS)
def test_a_model_that_drafts_for_itself_is_always_accepted(name):
    stepper = STEPPERS[name](3)
    generated, acceptance = speculative_sequences(
        stepper, DraftStepper(stepper), *padded([[0, 1, 2], [3], [4, 4]]), max_new=40
    )
    assert acceptance.accepted.tolist() == acceptance.proposed.tolist()
    assert (acceptance.accepted + acceptance.rounds + 1).tolist() == [40, 40, 40]
    sampled, acceptance = speculative_sequences(
        stepper, DraftStepper(stepper), *padded([[0, 1, 2], [3], [4, 4]]), max_new=40, seed=1
    )
    assert acceptance.accepted.tolist() == acceptance.proposed.tolist()


def test_rows_with_a_shared_memory_can_be_generated():
    stepper = Translator(5, 3, torch.ones(1, 4, dtype=torch.float64))
    plain = greedy_sequences(stepper, torch.tensor([[1], [2], [3]]), max_new=9, end=0)
    generated, _ = speculative_sequences(stepper, PromptLookup(), torch.tensor([[1], [2], [3]]), max_new=9, end=0)
    assert generated.tokens.tolist() == plain.tokens.tolist()


def chi_square(counts, probs):
    expected = counts.sum() * probs
    assert not counts[expected == 0].any()
    return float((((counts - expected) ** 2) / expected)[expected > 0].sum())


def text_probs(table, first, length):
    """p of every text (vocabulary,) * length after a token, ordered as base-V numbers."""
    probs = torch.tensor(table, dtype=torch.float64)
    joint = probs[first]
    for _ in range(length - 1):
        joint = (joint.view(-1, len(table))[..., None] * probs).flatten()
    return joint


def count_sampled_texts(stepper, draft, rows, length, **options):
    sampled, _ = speculative_sequences(
        stepper, draft, torch.zeros(rows, 1, dtype=torch.long), max_new=length, **options
    )
    place = (sampled.tokens * stepper.vocabulary ** torch.arange(length - 1, -1, -1)).sum(1)
    return place.bincount(minlength=stepper.vocabulary**length).double()


DRAFTS = {
    "another": lambda: DraftStepper(Transition(OTHER)),
    "itself": lambda: DraftStepper(Transition(TABLE)),
    "sharper": lambda: DraftStepper(with_filters(Transition(TABLE), top_k=1)),
    "lookup": lambda: PromptLookup(grams=(2, 1)),
}


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("chunk", [1, 3])
def test_sampled_texts_have_the_distribution_of_the_stepper(draft, chunk):
    probs = text_probs(TABLE, 0, 4)
    counts = count_sampled_texts(Transition(TABLE), DRAFTS[draft](), 20_000, 4, seed=chunk, chunk=chunk)
    degrees = int((probs > 0).sum()) - 1
    assert chi_square(counts, probs) < degrees + 4 * math.sqrt(2 * degrees)


def test_sampled_texts_have_the_distribution_of_filters():
    plain = with_filters(Transition(TABLE), temperature=0.7, top_k=3, no_repeat_ngram=2)
    reference = sample_sequences(plain, torch.zeros(40_000, 1, dtype=torch.long), max_new=3, seed=5).tokens
    expected = (reference * 4 ** torch.arange(2, -1, -1)).sum(1).bincount(minlength=64).double()
    counts = count_sampled_texts(
        plain, DraftStepper(with_filters(Transition(OTHER), temperature=0.7)), 40_000, 3, seed=9
    )
    cells = (expected + counts) > 10
    degrees = int(cells.sum()) - 1
    difference = ((expected - counts) ** 2 / (expected + counts))[cells].sum()
    assert float(difference) < degrees + 4 * math.sqrt(2 * degrees)


@pytest.mark.parametrize("wrong", ["always", "without the rest", "a half"])
def test_a_wrong_acceptance_rule_changes_the_distribution(wrong, monkeypatch):
    def misjudge(log_probs, proposal, uniform):
        if wrong == "always":
            uniform = uniform * torch.tensor([1.0, 0.0, 1.0])
        elif wrong == "a half":
            uniform = uniform * torch.tensor([1.0, 0.5, 1.0])
        verdict = judge(log_probs, proposal, uniform)
        if wrong == "without the rest":
            plain = judge(log_probs[:, :], Proposal(proposal.tokens, torch.zeros_like(proposal.counts), None), uniform)
            verdict = verdict._replace(following=torch.where(verdict.accepted == 0, plain.following, verdict.following))
        return verdict

    monkeypatch.setattr("clew.decoding.speculative.judge", misjudge)
    probs = text_probs(TABLE, 0, 4)
    counts = count_sampled_texts(Transition(TABLE), DRAFTS["another"](), 20_000, 4, seed=1, chunk=3)
    degrees = int((probs > 0).sum()) - 1
    impossible = bool(counts[probs == 0].any())
    assert impossible or chi_square(counts, probs) > degrees + 10 * math.sqrt(2 * degrees)


@settings(deadline=None, max_examples=20)
@given(ROWS, st.integers(0, 99), st.sampled_from([Recurrent, Attending]), st.booleans())
def test_a_row_is_sampled_equally_alone_and_in_a_batch(rows, seed, family, lookup):
    stepper = with_filters(family(5, seed), temperature=1.3, repetition_penalty=1.1)
    draft = PromptLookup() if lookup else DraftStepper(family(5, seed + 1))
    together, batch_acceptance = speculative_sequences(stepper, draft, *padded(rows), max_new=9, end=0, seed=seed)
    for i, row in enumerate(rows):
        alone, own = speculative_sequences(
            stepper, draft, torch.tensor([row]), max_new=9, end=0, seed=seed, row_numbers=[i]
        )
        length = int(alone.lengths)
        assert together.lengths[i] == length
        assert together.tokens[i, :length].tolist() == alone.tokens[0].tolist()
        assert [int(part[i]) for part in batch_acceptance] == [int(part[0]) for part in own]


def test_another_seed_samples_other_tokens():
    stepper, prompt = Recurrent(9, 3), torch.zeros(1, 1, dtype=torch.long)
    texts = {
        tuple(speculative_sequences(stepper, PromptLookup(), prompt, max_new=9, seed=seed)[0].tokens[0].tolist())
        for seed in range(9)
    }
    assert len(texts) > 6


def test_streamed_tokens_equal_collected_ones():
    stepper, prompt = Recurrent(6, 3), torch.tensor([[0], [1], [2]])
    for seed in (None, 1):
        streamed = torch.stack(list(speculative(stepper, PromptLookup(), prompt, max_new=17, end=5, seed=seed)), 1)
        assert (
            streamed.tolist()
            == speculative_sequences(stepper, PromptLookup(), prompt, max_new=17, end=5, seed=seed)[0].tokens.tolist()
        )


def test_a_step_is_yielded_before_the_next_round():
    stepper = Transition(TABLE)
    tokens = speculative(stepper, PromptLookup(), torch.tensor([[0]]), max_new=9)
    next(tokens)
    assert stepper.calls == 1
    next(tokens)
    assert stepper.calls == 2


def test_no_more_positions_are_read_than_max_new_needs():
    stepper = Recurrent(5, 3, positions=3 + 12 - 1)  # the last token is not read
    rows = [[0, 1, 2], [3, 3, 4]]
    for draft in (DraftStepper(stepper), PromptLookup(), DraftStepper(Recurrent(5, 4))):
        generated, _ = speculative_sequences(stepper, draft, torch.tensor(rows), max_new=12, chunk=9)
        assert generated.tokens.shape == (2, 12)


def test_the_chunk_grows_if_all_is_accepted_and_shrinks_if_nothing_is():
    table = Transition([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    lengths = []

    class Watched(Scripted):
        def propose(self, tokens, mask, most, uniform, state):
            lengths.append(int(most[0]))
            return super().propose(tokens, mask, most, uniform, state)

    text = greedy_sequences(table, torch.tensor([[0]]), max_new=60).tokens
    speculative_sequences(table, Watched(text, 3, AGREEMENT["always"]), torch.tensor([[0]]), max_new=60)
    assert lengths[:5] == [4, 5, 6, 7, 8]
    lengths.clear()
    speculative_sequences(table, Watched(text, 3, AGREEMENT["never"]), torch.tensor([[0]]), max_new=60)
    assert lengths[:5] == [4, 3, 2, 1, 1]


def test_prompt_lookup_guesses_what_last_followed_the_longest_n_gram():
    draft = PromptLookup(grams=(3, 2))
    tokens, mask = padded(
        [[1, 2, 3, 9, 1, 2, 3, 8, 2, 3, 7, 1, 2, 3], [4, 5, 6], [5, 5, 5, 5], [1, 2, 3, 4, 1, 2, 3, 4]]
    )
    most = torch.tensor([4, 3, 3, 6])
    proposal, _ = draft.propose(tokens, mask, most, None, draft.initial_state(4, 30))
    assert proposal.counts.tolist() == [4, 0, 3, 6]
    assert proposal.tokens[0, :4].tolist() == [8, 2, 3, 7]
    assert proposal.tokens[2, :3].tolist() == [5, 5, 5]
    assert proposal.tokens[3].tolist() == [1, 2, 3, 4, 1, 2]


def test_prompt_lookup_generates_a_repetitive_text_in_few_calls():
    table = Transition([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    _, acceptance = speculative_sequences(table, PromptLookup(), torch.tensor([[0, 1, 2, 0, 1, 2]]), max_new=100)
    assert acceptance.rounds.item() < 12


def test_a_draft_of_another_vocabulary_is_rejected():
    with pytest.raises(UserError) as error:
        speculative(Transition(TABLE), DraftStepper(Recurrent(5, 0)), torch.tensor([[0]]), max_new=3)
    assert str(error.value) == (
        "the draft model has a vocabulary of 5 tokens and the main model one of 4; a draft needs the same vocabulary"
    )


@pytest.mark.parametrize("chunk", [0, LONGEST + 1])
def test_a_chunk_out_of_bounds_is_rejected(chunk):
    with pytest.raises(UserError) as error:
        speculative(Transition(TABLE), PromptLookup(), torch.tensor([[0]]), max_new=3, chunk=chunk)
    assert (
        str(error.value)
        == f"chunk ({chunk}) must be at least 1 and at most 16: the number of tokens that a draft guesses at first"
    )


def test_a_row_without_possible_tokens_is_rejected():
    stepper = Transition([[[0.5, 0.5], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]]])
    with pytest.raises(UserError, match="row 0 has no next token of probability above 0"):
        speculative_sequences(stepper, PromptLookup(), torch.tensor([[0]]), max_new=3)


def test_a_draft_without_possible_tokens_guesses_nothing():
    draft = DraftStepper(Transition([[[0.5, 0.5], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]]]))
    stepper = Transition([[0.5, 0.5], [0.5, 0.5]])
    sampled, acceptance = speculative_sequences(stepper, draft, torch.tensor([[0]]), max_new=6, seed=1)
    assert sampled.tokens.shape == (1, 6)
    assert acceptance.proposed.item() <= 1
