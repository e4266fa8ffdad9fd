import itertools
import math
import time
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.baselines.kneser_ney import fit_kneser_ney, fit_kneser_ney_words
from clew.core.errors import UserError
from clew.data.corpora import find_corpus
from clew.data.lines import read_lines
from clew.decoding.sampling import greedy_sequences, sample_sequences

START = "start"


class ByTheBook:
    """Chen and Goodman's equations with dictionaries of tuples, one n-gram at a time."""

    def __init__(self, sequences, vocabulary, order):
        self.vocabulary, self.order = vocabulary, order
        raw = Counter()
        for sequence in sequences:
            tokens = [START, *sequence]
            for n in range(1, order + 1):
                raw.update(tuple(tokens[i - n + 1 : i + 1]) for i in range(1, len(tokens)) if i - n + 1 >= 0)
        self.counts = defaultdict(dict)
        before = Counter(gram[1:] for gram in raw)
        for gram, count in raw.items():
            is_raw = len(gram) == order or gram[0] == START
            self.counts[gram[:-1]][gram[-1]] = count if is_raw else before[gram]
        self.discounts = [None] + [self.three_discounts(n) for n in range(1, order + 1)]

    def three_discounts(self, n):
        counts = [c for history, following in self.counts.items() if len(history) == n - 1 for c in following.values()]
        n1, n2, n3, n4 = (counts.count(c) for c in (1, 2, 3, 4))
        discounts = [0.5, 1.0, 1.5]
        for c, (this, following) in enumerate([(n1, n2), (n2, n3), (n3, n4)], start=1):
            if n1 and this:
                discount = c - (c + 1) * (n1 / (n1 + 2 * n2)) * following / this
                if 0 < discount < c:
                    discounts[c - 1] = discount
        return discounts

    def prob(self, word, history):
        return self.below(word, tuple([START, *history][-(self.order - 1) :] if self.order > 1 else []))

    def below(self, word, history):
        lower = self.below(word, history[1:]) if history else 1 / self.vocabulary
        following = self.counts.get(history)
        if not following:
            return lower
        discount = {w: self.discounts[len(history) + 1][min(c, 3) - 1] for w, c in following.items()}
        total = sum(following.values())
        own = (following[word] - discount[word]) / total if word in following else 0
        return own + sum(discount.values()) / total * lower


def some_sequences(seed, vocabulary=4, num=30):
    random = np.random.default_rng(seed)
    skewed = random.dirichlet(np.full(vocabulary, 0.5), size=vocabulary + 1)
    sequences = []
    for _ in range(num):
        tokens = [vocabulary]
        for _ in range(random.integers(0, 9)):
            tokens.append(random.choice(vocabulary, p=skewed[tokens[-1]]))
        sequences.append([int(token) for token in tokens[1:]])
    return sequences


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_every_probability_after_every_history_equals_the_equations(order):
    sequences = some_sequences(order)
    model, book = fit_kneser_ney(sequences, 5, order), ByTheBook(sequences, 5, order)  # 4 never occurs
    for length in range(order + 1):
        for history in itertools.product(range(5), repeat=length):
            probs = model.probs(history)
            assert probs == pytest.approx([book.prob(token, history) for token in range(5)], rel=1e-12)
            assert probs.sum() == pytest.approx(1, abs=1e-12)
            assert (probs > 0).all()


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=6).filter(any), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_any_text_gives_probabilities_that_sum_to_one(sequences, order):
    model, book = fit_kneser_ney(sequences, 3, order), ByTheBook(sequences, 3, order)
    for history in itertools.chain.from_iterable(
        itertools.product(range(3), repeat=length) for length in range(order + 1)
    ):
        assert model.probs(history).sum() == pytest.approx(1, abs=1e-12)
        assert model.probs(history)[1] == pytest.approx(book.prob(1, history))


def test_the_discounts_of_a_large_text_equal_chen_and_goodmans():
    sequences = some_sequences(3, vocabulary=40, num=400)
    discounts = ByTheBook(sequences, 40, 2).discounts[2]
    assert all(c - 1 < discount < c for c, discount in enumerate(discounts, start=1))
    model, book = fit_kneser_ney(sequences, 40, 2), ByTheBook(sequences, 40, 2)
    assert model.probs([7]) == pytest.approx([book.prob(token, [7]) for token in range(40)], rel=1e-12)


@pytest.mark.parametrize("order", [1, 3, 5])
def test_tokens_of_a_text_have_the_probabilities_after_their_histories(order):
    sequences = some_sequences(order)
    model = fit_kneser_ney(sequences, 5, order)
    held_out = [[4, 4, 1, 2, 3, 0, 0, 1], [], [2], *sequences[:5]]
    expected = [[math.log(model.probs(tokens[:i])[token]) for i, token in enumerate(tokens)] for tokens in held_out]
    for tokens, log_probs in zip(held_out, expected, strict=True):
        assert model.log_probs(tokens) == pytest.approx(log_probs, rel=1e-12)
    likelihood = model.likelihood(held_out)
    assert (likelihood.tokens, likelihood.nats) == (
        sum(map(len, held_out)),
        pytest.approx(-sum(itertools.chain(*expected))),
    )


def test_a_lower_order_counts_histories_not_occurrences():
    # b follows a ten times, d follows four different tokens: after an unseen history d is more probable, although b is
    # more frequent.
    a, b, c, d, e = range(5)
    model = fit_kneser_ney([[a, b]] * 10 + [[a, d], [b, d], [c, d], [e, d]], 6, 2)
    assert model.probs([5])[d] > model.probs([5])[b]
    assert (
        fit_kneser_ney([[a, b]] * 10 + [[d]] * 4, 6, 1).probs()[b]
        > fit_kneser_ney([[a, b]] * 10 + [[d]] * 4, 6, 1).probs()[d]
    )


def test_large_ids_and_long_orders_do_not_overflow():
    model = fit_kneser_ney([[99_999, 5, 99_998, 5, 99_999, 7]], 100_000, 12)
    assert model.probs([99_999, 5]).sum() == pytest.approx(1)
    assert int(model.probs([99_999, 5, 99_998, 5]).argmax()) == 99_999


def test_samples_match_the_models_probabilities():
    model = fit_kneser_ney(some_sequences(1), 4, 3)
    samples = np.array(model.sample(6000, seed=5))
    frequencies = np.bincount(samples, minlength=4) / len(samples)
    after_one = np.bincount(samples[2:][(samples[1:-1] == 1) & (samples[:-2] == 2)], minlength=4)
    assert after_one / after_one.sum() == pytest.approx(model.probs([0, 0, 2, 1]), abs=0.05)
    assert (frequencies > 0.02).all()
    assert model.sample(8, seed=5) == samples[:8].tolist() and model.sample(8, seed=6) != samples[:8].tolist()
    assert model.sample(500, [2, 1], end=3, seed=1).index(3) == len(model.sample(500, [2, 1], end=3, seed=1)) - 1


@pytest.mark.parametrize("order", [1, 2, 4])
def test_it_can_be_decoded_like_any_model(order):
    model = fit_kneser_ney(some_sequences(2), 4, order)
    stepper, tokens = model.stepper(), torch.tensor([[0, 1, 2, 0, 3], [3, 3, 1, 0, 0]])
    whole, _ = stepper(tokens, None, stepper.initial_state(2))
    expected = [[model.probs(row[: i + 1]) for i in range(5)] for row in tokens.tolist()]
    assert whole.exp().numpy() == pytest.approx(np.array(expected))
    mask = torch.tensor([[True] * 2, [True, False]])
    _, state = stepper(tokens[:, :2], mask, stepper.initial_state(2))
    rest, _ = stepper(torch.tensor([[2], [3]]), None, state)
    assert rest[:, 0] == pytest.approx(whole[[0, 1], [2, 1]])
    sampled = sample_sequences(stepper, tokens[:, :1], max_new=6, seed=3)
    assert sampled.log_probs[0].numpy() == pytest.approx(model.log_probs([0, *sampled.tokens[0].tolist()])[1:])
    assert greedy_sequences(stepper, tokens[:, :1], max_new=1).tokens[0, 0] == model.probs([0]).argmax()


def test_a_word_model_has_an_unknown_word_and_an_end():
    sentences = [s.split() for s in ("a b c", "a b d", "b a", "a b c")]
    model = fit_kneser_ney_words(sentences, order=3, min_count=2)
    assert model.words.words == ("a", "b", "c", "<unk>", "</s>")
    assert model.log_probs(["a", "b", "d"]) == pytest.approx(model.log_probs(["a", "b", "never"]))
    assert len(model.log_probs([])) == 1
    direct = fit_kneser_ney([[0, 1, 2, 4], [0, 1, 3, 4], [1, 0, 4], [0, 1, 2, 4]], 5, 3)
    assert model.log_probs(["a", "b", "d"]) == pytest.approx(direct.log_probs([0, 1, 3, 4]))
    assert model.likelihood(sentences).tokens == 15
    samples = [model.sample(9, seed=seed) for seed in range(20)]
    assert all("</s>" not in words and set(words) <= {"a", "b", "c", "<unk>"} for words in samples) and any(
        0 < len(w) < 9 for w in samples
    )


def test_an_unseen_word_has_a_probability_without_unknown_words_in_training():
    assert fit_kneser_ney_words([["a", "b"]] * 3, order=2).log_probs(["c"])[0] > -10


def test_invalid_inputs_are_rejected():
    for sequences in ([], [[], []]):
        with pytest.raises(UserError, match=r"^no token to count; give some text$"):
            fit_kneser_ney(sequences, 3)
    with pytest.raises(UserError, match=r"^vocabulary \(3\) and order \(0\) must be at least 1$"):
        fit_kneser_ney([[1]], 3, 0)
    with pytest.raises(UserError, match=r"^token 3 must be between 0 and 2, as the vocabulary has 3$"):
        fit_kneser_ney([[1, 3]], 3)
    with pytest.raises(UserError, match=r"^token -1 must be between 0 and 2, as the vocabulary has 3$"):
        fit_kneser_ney([[1, 2]], 3).probs([-1])
    with pytest.raises(UserError, match=r"^no words; give some text$"):
        fit_kneser_ney_words([])
    with pytest.raises(UserError, match=r"^no word occurs 2 times; give more text or a smaller min_count$"):
        fit_kneser_ney_words([["a"]], min_count=2)


@pytest.mark.corpus
def test_the_penn_treebank_has_the_published_perplexity_within_seconds():
    files = find_corpus("ptb")
    train, test = ([line.split() for line in read_lines(file)] for file in (files.train, files.test))
    begin = time.perf_counter()
    model = fit_kneser_ney_words(train, order=5)
    assert time.perf_counter() - begin < 30
    assert model.likelihood(test).perplexity == pytest.approx(141.2, abs=0.1)  # KN5 of Mikolov et al. (2011)
