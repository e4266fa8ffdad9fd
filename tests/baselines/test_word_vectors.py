import gzip
import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clew.baselines import word_vectors
from clew.baselines.sparse import sparse
from clew.baselines.word_vectors import (
    Batch,
    Table,
    WordVectors,
    count_pairs,
    fit_pmi,
    fit_word2vec,
    in_windows,
    joined,
    learn,
    load_word_vectors,
    positive_pmi,
    thinned,
    truncated_svd,
)
from clew.baselines.words import Words, fit_words
from clew.core.errors import UserError

FITS = {
    "skip_gram": lambda sentences, **options: fit_word2vec(sentences, "skip_gram", dim=16, **options),
    "cbow": lambda sentences, **options: fit_word2vec(sentences, "cbow", dim=16, **options),
    "pmi": lambda sentences, **options: fit_pmi(sentences, dim=16, **options),
}
MORE = {"skip_gram": {"epochs": 5, "batch": 64}, "cbow": {"epochs": 10, "batch": 64}, "pmi": {}}
SENTENCES = [sentence.split() for sentence in ("a b c a d", "b b a", "c", "d a c b e", "e e")]


def about_topics(seed=1, num=800):
    """Sentences with words of one of five topics and words without a topic."""
    random = np.random.default_rng(seed)
    return [
        [
            f"of{random.integers(4)}" if random.random() < 0.3 else f"{'abcde'[topic]}{random.integers(8)}"
            for _ in range(8)
        ]
        for topic in random.integers(5, size=num)
    ]


def of_two_traits(seed=1, num=1500):
    """Four words, each next to a word that marks its rank and one that marks its kind; other words fill the
    sentences."""
    random = np.random.default_rng(seed)
    sentences = []
    for _ in range(num):
        rank, kind = random.integers(2, size=2)
        word = (("man", "woman"), ("king", "queen"))[rank][kind]
        beside = [f"{('plain', 'royal')[rank]}{random.integers(5)}", f"{('he', 'she')[kind]}{random.integers(5)}"]
        sentences.append([*random.permutation([word, *beside]), f"filler{random.integers(20)}"])
    return sentences


@pytest.mark.parametrize("method", FITS)
def test_nearest_words_are_of_the_same_topic(method):
    vectors = FITS[method](about_topics(), **MORE[method])
    topical = [f"{topic}{i}" for topic, i in product("abcde", range(8))]
    same = [near[0] == word[0] for word in topical for near, _ in vectors.nearest(word, 5)]
    assert np.mean(same) > 0.95


@pytest.mark.parametrize("method", FITS)
def test_differences_of_words_capture_their_traits(method):
    vectors = FITS[method](of_two_traits(), **MORE[method])
    assert vectors.analogy("man", "king", "woman", 1)[0][0] == "queen"
    assert vectors.analogy("king", "man", "queen", 1)[0][0] == "woman"


@pytest.mark.parametrize("method", FITS)
def test_vectors_are_determined_by_the_seed(method):
    first, same, other = (FITS[method](SENTENCES * 5, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.vectors, same.vectors)
    assert not torch.equal(first.vectors, other.vectors)


def test_windows_are_within_sentences(monkeypatch):
    monkeypatch.setattr(word_vectors, "AT_ONCE", 3)
    words = fit_words(SENTENCES, min_count=2)
    filtered = [[word for word in sentence if word in words] for sentence in SENTENCES]
    for window in (1, 2, 7):
        expected = [
            (sentence[i], tuple(sentence[max(i - window, 0) : i] + sentence[i + 1 : i + 1 + window]))
            for sentence in filtered
            for i in range(len(sentence))
            if len(sentence) > 1
        ]
        pairs = [
            (words.words[centre], tuple(words.words[i] for i in row if i >= 0))
            for centres, neighbours in in_windows(joined(SENTENCES, words), window)
            for centre, row in zip(centres[:, 0], neighbours, strict=True)
        ]
        assert pairs == expected


def test_random_windows_have_each_width_equally_often():
    text = np.zeros(30_001, np.int64)
    text[-1] = -1
    pairs = [row for _, neighbours in in_windows(text, 3, np.random.default_rng(1)) for row in neighbours[3:-3]]
    widths = Counter(int((row >= 0).sum()) for row in pairs)
    assert {width: count / len(pairs) for width, count in widths.items()} == pytest.approx(
        {2: 1 / 3, 4: 1 / 3, 6: 1 / 3}, abs=0.02
    )


def test_frequent_words_are_subsampled():
    text = np.array([0, 1, 2, -1] * 5000)
    remaining = thinned(text, np.array([0.1, 0.5, 1.0]), np.random.default_rng(1))
    counts = Counter(remaining.tolist())
    assert counts[2] == counts[-1] == 5000
    assert counts[1] / 5000 == pytest.approx(0.5, abs=0.03) and counts[0] / 5000 == pytest.approx(0.1, abs=0.02)


def test_a_step_lowers_the_loss():
    generator = torch.Generator().manual_seed(1)
    before = [torch.randn(6, 4, generator=generator) for _ in range(2)]
    read_ids = torch.tensor([[0, 1, -1], [2, -1, -1], [1, 1, 3]])
    targets = torch.tensor([[4, 5], [0, -1], [4, 1]])
    noise = torch.tensor([4, 2, 2])
    v, u = (table.clone().requires_grad_() for table in before)
    loss = torch.zeros(())
    for row, answers in zip(read_ids.tolist(), targets.tolist(), strict=True):
        hidden = torch.stack([v[word] for word in row if word >= 0]).mean(0)
        for answer in (word for word in answers if word >= 0):
            loss = loss - F.logsigmoid(u[answer] @ hidden)
            for wrong in noise.tolist():
                loss = loss - 5 / 3 * F.logsigmoid(-u[wrong] @ hidden) * (wrong != answer)
    gradients = torch.autograd.grad(loss, [v, u])
    tables = [Table(table.clone()) for table in before]
    learn(*tables, Batch(read_ids, targets, noise), num_noise=5, rate=0.1)
    for table, old, gradient in zip(tables, before, gradients, strict=True):
        expected = old - 0.1 * gradient / (gradient**2 + 1e-8).sqrt()
        assert torch.allclose(table.rows, expected, atol=1e-5)
        assert torch.allclose(table.squares, gradient**2 + 1e-8, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["skip_gram", "cbow"])
def test_inputs_targets_and_noise_have_the_expected_frequencies(method, monkeypatch):
    batches = []
    monkeypatch.setattr(word_vectors, "learn", lambda inputs, outputs, batch, num_noise, rate: batches.append(batch))
    sentences = [["c"] * 9 + ["b"] * 3 + ["a"]] * 50
    words = fit_word2vec(sentences, method, window=1, subsample=0, epochs=2, batch=8).words.words
    assert words == ("c", "b", "a")
    counts = Counter(torch.cat([batch.noise for batch in batches]).tolist())
    expected = np.array([9, 3, 1]) ** 0.75
    assert [counts[i] / counts.total() for i in range(3)] == pytest.approx(expected / expected.sum(), abs=0.01)
    one, some = ("read", "targets") if method == "skip_gram" else ("targets", "read")
    pairs = Counter()
    for batch in batches:
        for centre, neighbours in zip(getattr(batch, one).tolist(), getattr(batch, some).tolist(), strict=True):
            pairs.update((words[centre[0]], words[i]) for i in neighbours if i >= 0)
    assert pairs == {
        ("c", "c"): 1600,
        ("c", "b"): 100,
        ("b", "c"): 100,
        ("b", "b"): 400,
        ("b", "a"): 100,
        ("a", "b"): 100,
    }


def test_pmi_equals_its_equation_over_all_pairs(monkeypatch):
    monkeypatch.setattr(word_vectors, "AT_ONCE", 4)
    words = fit_words(SENTENCES)
    pairs = Counter(
        (s[i], s[j])
        for s in SENTENCES
        for i in range(len(s))
        for j in range(max(i - 2, 0), min(i + 3, len(s)))
        if i != j
    )
    counts = count_pairs(joined(SENTENCES, words), 2, len(words))
    for shift, smoothing in ((1.0, 1.0), (1.0, 0.75), (2.0, 0.75)):
        actual = positive_pmi(counts, shift, smoothing).to_dense()
        total = sum(pairs.values())
        of_word = {word: sum(n for (w, _), n in pairs.items() if w == word) for word in words.words}
        smoothed = {word: sum(n for (_, c), n in pairs.items() if c == word) ** smoothing for word in words.words}
        for (i, word), (j, context) in product(enumerate(words.words), repeat=2):
            assert counts.to_dense()[i, j] == pairs[word, context]
            share = smoothed[context] / sum(smoothed.values())
            ratio = pairs[word, context] / total / (of_word[word] / total * share) / shift
            assert float(actual[i, j]) == pytest.approx(max(0.0, math.log(ratio)) if ratio else 0.0)


def test_the_largest_singular_values_are_found():
    random = np.random.default_rng(1)
    dense = random.standard_normal((60, 6)) @ random.standard_normal((6, 40)) + 0.1 * random.standard_normal((60, 40))
    dense[random.random(dense.shape) < 0.5] = 0
    rows, columns = dense.nonzero()
    left, values, right = truncated_svd(sparse(rows, columns, dense[rows, columns], dense.shape), 8)
    expected = np.linalg.svd(dense)
    assert values.numpy() == pytest.approx(expected.S[:8], rel=1e-4)
    best = expected.U[:, :8] * expected.S[:8] @ expected.Vh[:8]
    assert np.abs(((left * values) @ right.T).numpy() - best).max() < 0.02 * np.abs(best).max()
    assert torch.allclose(left.T @ left, torch.eye(8, dtype=torch.float64))


def test_dimensions_are_limited_to_the_number_of_words():
    assert fit_pmi(SENTENCES, dim=50).vectors.shape == (5, 5)
    assert torch.isfinite(fit_word2vec(SENTENCES, dim=50, epochs=1).vectors).all()


def test_nearest_words_are_by_cosine_independent_of_length():
    vectors = WordVectors(Words("abcd"), torch.tensor([[1.0, 0.0], [50.0, 50.0], [0.1, 0.0], [-3.0, 0.0]]))
    assert [word for word, _ in vectors.nearest("a")] == ["c", "b", "d"]
    assert [cosine for _, cosine in vectors.nearest("a")] == pytest.approx([1, math.sqrt(0.5), -1])
    assert [word for word, _ in vectors.nearest(torch.tensor([1.0, 1.0]), 2)] == ["b", "a"]
    assert vectors.nearest("a", 0) == []
    assert [word for word, _ in vectors.nearest_sum(["b"], ["a"])] == ["d", "c"]  # (0, 1), with cosines -1 and 0


def test_vectors_are_saved_in_a_text_file(tmp_path):
    vectors = fit_pmi(SENTENCES, dim=3)
    path = vectors.save(tmp_path / "vectors.txt")
    assert path.read_text().splitlines()[0] == "5 3"
    zipped = vectors.save(tmp_path / "vectors.txt.gz")
    assert gzip.decompress(zipped.read_bytes()) == path.read_bytes()
    assert zipped.read_bytes() == vectors.save(zipped).read_bytes()
    for file in (path, zipped):
        loaded = load_word_vectors(file)
        assert loaded.words.words == vectors.words.words
        assert torch.allclose(loaded.vectors, vectors.vectors, rtol=1e-6)
    assert [file.name for file in tmp_path.iterdir() if "partial" in file.name] == []


def test_files_of_other_programs_are_read(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\nnew york 3 4\nthe 5 6\n")
    loaded = load_word_vectors(path)
    assert loaded.words.words == ("the", "new york") and loaded.vectors.tolist() == [[1, 2], [3, 4]]
    assert load_word_vectors(path, 1).words.words == ("the",)
    path.write_text("2 2\na 1 2\nb 1 nan\n")
    with pytest.raises(UserError, match=r":3: the vector has a number that is not finite; leave the line out$"):
        load_word_vectors(path)


def test_progress_is_reported_from_beginning_to_end():
    for method in FITS:
        calls = []
        FITS[method](SENTENCES * 5, progress=lambda done, total, calls=calls: calls.append((done, total)))
        assert calls == sorted(calls) and calls[-1][0] == calls[-1][1] and len({total for _, total in calls}) == 1


def test_invalid_inputs_are_rejected(tmp_path):
    with pytest.raises(
        UserError, match=r"^unknown method 'skipgram'; did you mean 'skip_gram'\? known: cbow, skip_gram$"
    ):
        fit_word2vec(SENTENCES, "skipgram")
    with pytest.raises(UserError, match=r"^window \(0\) must be at least 1$"):
        fit_word2vec(SENTENCES, window=0)
    with pytest.raises(UserError, match=r"^shift \(0.5\) must be at least 1$"):
        fit_pmi(SENTENCES, shift=0.5)
    with pytest.raises(UserError, match=r"^subsample \(-1\) must be at least 0, which keeps every word$"):
        fit_word2vec(SENTENCES, subsample=-1)
    with pytest.raises(
        UserError,
        match=r"^no sentence has two neighbouring words with vectors; give longer sentences or a smaller min_count$",
    ):
        fit_word2vec([["a"], ["b"]])
    vectors = WordVectors(Words(["king", "queen"]), torch.eye(2))
    with pytest.raises(UserError, match=r"^no vector for 'kings'; did you mean 'king'\? 2 words have one$"):
        vectors.nearest("kings")
    with pytest.raises(
        UserError, match=r"^cannot write the vectors to .*: No such file or directory; choose another place$"
    ):
        vectors.save(tmp_path / "none" / "vectors.txt")
    with pytest.raises(
        UserError, match=r"^the word 'a b' is empty or has a space in it, which the text format of vectors cannot hold$"
    ):
        WordVectors(Words(["a b"]), torch.eye(1)).save(tmp_path / "vectors.txt")
