"""Merges by likelihood against a reference that recounts everything before each merge, in integers."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.runs.config import resolve
from clew.runs.tokenizers import RunTokenizers
from clew.text.likelihood_merges import likelihood_merges
from clew.text.train import train_wordpiece, train_wordpiece_likelihood


def reference_merges(words: dict[str, int], min_count: int = 1) -> list[str]:
    """argmax freq(ab) / (freq(a) freq(b)), one merge after another, by the definition."""
    split = {word: [word[0], *("##" + letter for letter in word[1:])] for word in words}
    merges = []
    while True:
        single: Counter[str] = Counter()
        double: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for piece in split[word]:
                single[piece] += times
            for i in range(len(split[word]) - 1):
                double[split[word][i], split[word][i + 1]] += times
        able = [pair for pair in double if double[pair] >= min_count]
        if not able:
            return merges
        a, b = min(
            able, key=lambda pair: (-Fraction(double[pair], single[pair[0]] * single[pair[1]]), -double[pair], pair)
        )
        merges.append(a + b[2:])
        for word, pieces in split.items():
            new, i = [], 0
            while i < len(pieces):
                if pieces[i : i + 2] == [a, b]:
                    new.append(merges[-1])
                    i += 2
                else:
                    new.append(pieces[i])
                    i += 1
            split[word] = new


def longest_first(word: str, vocabulary: set[str]) -> list[str]:
    pieces: list[str] = []
    start = 0
    while start < len(word):
        marked = [("##" if start else "") + word[start:stop] for stop in range(len(word), start, -1)]
        piece = next((each for each in marked if each in vocabulary), None)
        if piece is None:
            return ["[UNK]"]
        pieces.append(piece)
        start += len(piece) - (2 if start else 0)
    return pieces


CORPORA = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 30), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(words=CORPORA, min_count=st.integers(1, 5))
def test_merges_equal_those_of_recounting_each_time(words, min_count):
    assert list(likelihood_merges(words, min_count)) == reference_merges(words, min_count)


def test_a_pair_that_rarely_occurs_apart_is_merged_before_a_frequent_one():
    """`qu` is rare but always together: 2 / (2 * 2); `ab` is frequent, and so are its parts: 9 / (30 * 9)."""
    words = {"ab": 9, "ac": 21, "qu": 2}
    assert next(likelihood_merges(words)) == "qu"
    text = " ".join(word for word, times in words.items() for _ in range(times))
    by_likelihood, by_frequency = train_wordpiece_likelihood(text), train_wordpiece(text)
    assert by_likelihood.id("qu") < by_likelihood.id("ac")
    assert by_frequency.id("ac") < by_frequency.id("qu")


@settings(max_examples=60, deadline=None)
@given(words=CORPORA, room=st.integers(0, 12), text=st.lists(st.text("abcd", min_size=1, max_size=8), max_size=5))
def test_the_vocabulary_is_characters_then_merges_and_pieces_are_longest_first(words, room, text):
    corpus = [" ".join([word] * times) for word, times in words.items()]
    characters = sorted(set("".join(words)))
    begins = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *characters,
        *(f"##{c}" for c in sorted({c for w in words for c in w[1:]})),
    ]
    tokenizer = train_wordpiece_likelihood(corpus, size=len(begins) + room)
    merges = list(dict.fromkeys(reference_merges(words)))[:room]
    assert tokenizer.tokens == [*begins, *merges]
    tokens_found = [tokenizer.token(id) for id in tokenizer.encode(" ".join(text))]
    assert tokens_found == [piece for word in text for piece in longest_first(word, {*begins, *merges})]


@pytest.mark.parametrize("name", ["wordpiece", "wordpiece_likelihood"])
def test_runs_of_both_tokenizers_read_texts_between_cls_and_sep(name):
    config = resolve({"recipe": "text-bert", "task": {"name": "masked_language_model"}, "text": {"tokenizer": name}})
    tokenizer = RunTokenizers(config).of_text(["a maze has a door"], framed=True)
    assert tokenizer.frame is not None and tokenizer.kind == "wordpiece"
    assert [tokenizer.token(id) for id in tokenizer.frame.around(tokenizer.encode("a"))[0]] == ["[CLS]", "a", "[SEP]"]
