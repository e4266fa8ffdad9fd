import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.beam import beam_search
from clew.decoding.sampling import greedy_sequences
from tests.decoding.steppers import Attending, Recurrent, Transition, Translator, padded, probs_after

START, YES, OK, END = range(4)

# Most probable first word: yes (.5). Most probable answer: ok ok (.4 * .7 * 1 = .28), not yes yes (.5 * .4 * 1 = .2).
ANSWERS = Transition(
    [
        [[0, 0.5, 0.4, 0.1]] * 4,
        [[0, 0, 0, 1], [0, 0.4, 0.3, 0.3], [0, 0.2, 0.7, 0.1], [0, 0, 0, 1]],
        [[0, 0, 0, 1]] * 4,
    ]
)

LENGTH_PENALTIES = st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.5])
FAMILIES = st.sampled_from([Recurrent, Attending])


def results_of(hypotheses, sentence=0):
    """The existing hypotheses as (tokens, score), best first."""
    columns = (column[sentence].tolist() for column in (hypotheses.tokens, hypotheses.lengths, hypotheses.scores))
    return [(tuple(tokens[:length]), score) for tokens, length, score in zip(*columns, strict=True) if length]


def assert_same(actual, expected):
    assert [tokens for tokens, _ in actual] == [tokens for tokens, _ in expected]
    assert [score for _, score in actual] == pytest.approx([score for _, score in expected])


def score(log_prob, tokens, length_penalty):
    return log_prob / len(tokens) ** length_penalty


def log_prob_of(stepper, prompt, tokens):
    return sum(math.log(probs_after(stepper, [*prompt, *tokens[:t]])[token]) for t, token in enumerate(tokens))


def exhaustive_search(stepper, prompt, max_new, ends, length_penalty):
    """All sequences that end or are cut at max_new, sorted by score."""
    sequences = []
    for length in range(1, max_new + 1):
        for tokens in itertools.product(range(stepper.vocabulary), repeat=length):
            if not any(token in ends for token in tokens[:-1]) and (tokens[-1] in ends or length == max_new):
                sequences.append((tokens, score(log_prob_of(stepper, prompt, tokens), tokens, length_penalty)))
    return sorted(sequences, key=lambda pair: -pair[1])


def beam_search_with_lists(stepper, prompt, beams, max_new, ends, length_penalty):
    """The same search for one sentence with lists, without stopping early; a hypothesis is a tuple and a
    log-probability."""
    running, finished = [((), 0.0)], []
    for _ in range(max_new):
        candidates = []
        for tokens, log_prob in running:
            for token, p in enumerate(probs_after(stepper, [*prompt, *tokens])):
                candidates.append(((*tokens, token), log_prob + math.log(p)))
        candidates = sorted(candidates, key=lambda pair: -pair[1])[: (1 + len(ends)) * beams]
        finished += [pair for pair in candidates if pair[0][-1] in ends]
        running = [pair for pair in candidates if pair[0][-1] not in ends][:beams]
    scored = [(tokens, score(log_prob, tokens, length_penalty)) for tokens, log_prob in finished + running]
    return sorted(scored, key=lambda pair: -pair[1])


def test_greedy_misses_the_most_probable_answer_and_two_beams_find_it():
    prompt = torch.tensor([[START]])
    assert greedy_sequences(ANSWERS, prompt, max_new=5, end=END).tokens.tolist() == [[YES, YES, END]]
    hypotheses = beam_search(ANSWERS, prompt, beams=2, max_new=5, end=END, length_penalty=0.0)
    assert hypotheses.tokens.tolist() == [[[OK, OK, END]]]
    assert hypotheses.log_probs.exp().tolist() == [[pytest.approx(0.28)]]


def test_scores_divide_the_log_probability_by_a_power_of_the_length():
    hypotheses = beam_search(
        ANSWERS, torch.tensor([[START]]), beams=4, max_new=5, end=END, length_penalty=2.0, n_best=4
    )
    expected = [
        ((OK, OK, END), 0.28, 3),
        ((YES, YES, END), 0.2, 3),
        ((YES, OK, END), 0.15, 3),
        ((OK, YES, END), 0.08, 3),
    ]
    assert_same(results_of(hypotheses), [(tokens, math.log(p) / length**2) for tokens, p, length in expected])
    assert hypotheses.log_probs[0].exp().tolist() == pytest.approx([p for _, p, _ in expected])
    assert hypotheses.lengths.tolist() == [[3, 3, 3, 3]]


def test_a_negative_length_penalty_prefers_the_short():
    hypotheses = beam_search(
        ANSWERS, torch.tensor([[START]]), beams=4, max_new=5, end=END, length_penalty=-1.0, n_best=1
    )
    assert_same(results_of(hypotheses), [((END,), math.log(0.1))])


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 9999),
    family=FAMILIES,
    length_penalty=LENGTH_PENALTIES,
    vocabulary=st.integers(2, 3),
    ends=st.sampled_from([[], [0], [0, 1]]),
    n_best=st.integers(1, 27),
)
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(seed, family, length_penalty, vocabulary, ends, n_best):
    stepper = family(vocabulary, seed)
    prompt = [seed % vocabulary, 1]
    hypotheses = beam_search(
        stepper, torch.tensor([prompt]), beams=27, max_new=3, end=ends, length_penalty=length_penalty, n_best=n_best
    )
    assert_same(results_of(hypotheses), exhaustive_search(stepper, prompt, 3, ends, length_penalty)[:n_best])


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 9999),
    family=FAMILIES,
    length_penalty=LENGTH_PENALTIES,
    beams=st.integers(1, 4),
    ends=st.sampled_from([[], [0], [0, 3]]),
    rows=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_a_narrow_beam_over_ragged_sentences_equals_the_search_with_lists(
    seed, family, length_penalty, beams, ends, rows
):
    stepper = family(5, seed)
    hypotheses = beam_search(
        stepper, *padded(rows), beams=beams, max_new=6, end=ends, length_penalty=length_penalty, n_best=beams
    )
    for i, row in enumerate(rows):
        assert_same(
            results_of(hypotheses, i), beam_search_with_lists(stepper, row, beams, 6, ends, length_penalty)[:beams]
        )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 9999), LENGTH_PENALTIES, st.integers(2, 4))
def test_requesting_fewer_hypotheses_stops_sooner_but_changes_none(seed, length_penalty, beams):
    stepper, prompt = Recurrent(6, seed), torch.tensor([[1], [2], [3]])
    options = {"beams": beams, "max_new": 8, "end": 0, "length_penalty": length_penalty}
    best, all_of_them = beam_search(stepper, prompt, **options), beam_search(stepper, prompt, **options, n_best=beams)
    for i in range(3):
        assert results_of(best, i) == results_of(all_of_them, i)[:1]


@pytest.mark.parametrize("length_penalty, calls", [(-1.0, 1), (0.0, 1), (1.0, 2)])
def test_the_search_stops_once_nothing_running_can_win(length_penalty, calls):
    # The first token is the end with .9, and each step without it costs log .1. With length_penalty 1 the bound after t
    # such steps is t log .1 / 40, which falls below log .9 at t = 2; without normalisation one step is enough.
    stepper = Transition([[0.1, 0.9]] * 2)
    hypotheses = beam_search(stepper, torch.tensor([[0]]), beams=1, max_new=40, end=1, length_penalty=length_penalty)
    assert_same(results_of(hypotheses), [((1,), math.log(0.9))])
    assert stepper.calls == calls


def test_with_a_negative_length_penalty_the_bound_is_at_the_next_length_not_at_max_new():
    # The running hypothesis has log .9, at best 2 log .9 at the next step: above log .1, although 40 log .9 is not.
    stepper = Transition([[[0.9, 0.1]] * 2, [[0.0, 1.0]] * 2])
    hypotheses = beam_search(stepper, torch.tensor([[0]]), beams=2, max_new=40, end=1, length_penalty=-1.0)
    assert_same(results_of(hypotheses), [((0, 1), 2 * math.log(0.9))])


def test_a_vocabulary_smaller_than_the_number_of_candidates_fills_some_places():
    stepper = Transition([[0.4, 0.6], [0.0, 1.0]])
    hypotheses = beam_search(stepper, torch.tensor([[0]]), beams=5, max_new=2, end=1, n_best=5, length_penalty=0.0)
    assert hypotheses.lengths.tolist() == [[1, 2, 2, 0, 0]]
    assert hypotheses.tokens.tolist() == [[[1, 1], [0, 1], [0, 0], [1, 1], [1, 1]]]
    assert hypotheses.scores[0].exp().tolist() == pytest.approx([0.6, 0.24, 0.16, 0, 0])


def test_hypotheses_still_running_at_max_new_compete():
    stepper = Transition([[0.9, 0.1]] * 2)
    hypotheses = beam_search(stepper, torch.tensor([[0]]), beams=2, max_new=3, end=1, length_penalty=0.0, n_best=2)
    assert_same(results_of(hypotheses), [((0, 0, 0), 3 * math.log(0.9)), ((1,), math.log(0.1))])


def test_memory_has_one_row_per_sentence_and_each_beam_reads_its_own():
    sources = torch.randn(3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stepper = Translator(6, 2, sources)
    prompts = [[1, 2], [3], [4, 1, 1]]
    together = beam_search(stepper, *padded(prompts), beams=4, max_new=5, end=0, n_best=4)
    assert stepper.rows_of_memory == {3}
    for i, prompt in enumerate(prompts):
        alone = beam_search(
            Translator(6, 2, sources[i : i + 1]), torch.tensor([prompt]), beams=4, max_new=5, end=0, n_best=4
        )
        assert_same(results_of(together, i), results_of(alone))


def test_the_search_continues_from_a_given_state():
    stepper = Attending(5, 4)
    _, state = stepper(torch.tensor([[1, 2]]), None, stepper.initial_state(1, 9))
    options = {"beams": 3, "max_new": 5, "end": 0, "n_best": 3}
    whole = beam_search(stepper, torch.tensor([[1, 2, 3]]), **options)
    assert_same(results_of(beam_search(stepper, torch.tensor([[3]]), None, state, **options)), results_of(whole))


def test_the_tree_can_be_reconstructed_by_watching():
    steps = []
    hypotheses = beam_search(
        ANSWERS, torch.tensor([[START]]), beams=2, max_new=5, end=END, length_penalty=0.0, watch=steps.append
    )
    assert steps[0].tokens[0, :3].tolist() == [YES, OK, END]
    assert steps[0].log_probs[0, :3].exp().tolist() == pytest.approx([0.5, 0.4, 0.1])
    path, place = [END], (steps[2].tokens[0] == END).nonzero()[0, 0]
    for step in reversed(range(2)):
        place = steps[step].kept[0, steps[step + 1].parents[0, place]]
        path.insert(0, int(steps[step].tokens[0, place]))
    assert path == hypotheses.tokens[0, 0].tolist() == [OK, OK, END]


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"beams": 0}, "beams (0) must be at least 1"),
        ({"n_best": 0}, "n_best (0) must be at least 1 and at most beams (2)"),
        ({"n_best": 3}, "n_best (3) must be at least 1 and at most beams (2)"),
        ({"max_new": 0}, "max_new (0) must be at least 1"),
        ({"end": [1, 9]}, "end token (9) must be at least 0 and below vocabulary (4)"),
    ],
)
def test_invalid_search_options_are_rejected(options, sentence):
    with pytest.raises(UserError) as error:
        beam_search(ANSWERS, torch.tensor([[START]]), **{"beams": 2, "max_new": 5, "end": END, **options})
    assert str(error.value) == sentence


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_sentences_with_own_limits_are_searched_as_alone_and_leave_when_done(length_penalty):
    generator = torch.Generator().manual_seed(3)
    sources = torch.randn(9, 5, generator=generator, dtype=torch.float64)
    limits = torch.tensor([1, 2, 2, 3, 3, 3, 9, 14, 20])
    stepper = Translator(6, 2, sources)
    prompts = torch.randint(1, 6, (9, 2), generator=generator)
    options = {"beams": 3, "end": 0, "n_best": 3, "length_penalty": length_penalty}
    together = beam_search(stepper, prompts, max_new=limits, **options)
    assert max(stepper.rows_of_memory) == 9 and min(stepper.rows_of_memory) <= 4
    for i, limit in enumerate(limits.tolist()):
        alone = beam_search(Translator(6, 2, sources[i : i + 1]), prompts[i : i + 1], max_new=limit, **options)
        assert_same(results_of(together, i), results_of(alone))
