"""Which patterns can take unlimited time, and that no text does."""

import json
import sys
import time
from typing import Any

import pytest
from tokenizers import Regex, decoders, models, normalizers
from tokenizers import Tokenizer as Inner

from clew.core.errors import UserError
from clew.text.patterns import TokenizerFault, slow_parts, slow_patterns
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_bpe
from tests.serving.asking import BACKTRACKING, with_pattern

TEXT = "the cat sat on the mat.\nit sat.\n"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@pytest.mark.parametrize("pattern", [r"[\s\S]", " {2,}", r"\s+", r"\p{L}*", "a", r"[^\]a]{1,3}", r"\."])
def test_a_pattern_of_one_character_class_needs_no_limit(pattern: str) -> None:
    assert slow_patterns({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}}}) == []


@pytest.mark.parametrize("pattern", [BACKTRACKING, "(a|a)*b", "a*a*b", "[a]{1,9999}", GPT2, "(?=a)", "^a"])
def test_any_other_pattern_needs_a_limit_in_any_part_of_a_tokenizer(pattern: str) -> None:
    cut = {"type": "Split", "pattern": {"Regex": pattern}}
    for place in (
        {"pre_tokenizer": {"pretokenizers": [cut]}},
        {"normalizer": {"normalizers": [cut]}},
        {"decoder": cut},
    ):
        assert slow_patterns(place) == [pattern]


@pytest.mark.parametrize("text", ["", "the cat, it's 99 mats\n\n  sat.", "😀 e\u0301 <eos>\t\0", "▁##a" * 50])
def test_a_time_limit_does_not_change_the_tokens(text: str) -> None:
    free, limited = with_pattern(train_bpe([TEXT], size=280), GPT2), with_pattern(train_bpe([TEXT], size=280), GPT2)
    limited.limit_time(20.0)
    assert limited.apart is not None
    assert limited.encode(text) == free.encode(text)
    assert limited.encode_with_offsets(text) == free.encode_with_offsets(text)
    assert limited.encode_batch([text, "cat"]) == free.encode_batch([text, "cat"])
    assert limited.decode(free.encode(text)) == free.decode(free.encode(text))
    assert limited.normalize(text) == free.normalize(text)
    limited.apart.close()


def test_a_text_that_takes_too_long_is_rejected_with_the_pattern_and_the_next_is_read() -> None:
    tokenizer = with_pattern(train_bpe([TEXT], size=280), BACKTRACKING)
    expected = tokenizer.encode("the mat")
    tokenizer.limit_time(0.5)
    assert tokenizer.apart is not None
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(
            UserError, match=r"pattern '\(a\+\)\+\$' takes longer than 0.5 seconds on this text; ask with another text"
        ):
            tokenizer.encode(("a" * 20 + "b") * 400)
        assert time.monotonic() - began < 60
        assert tokenizer.encode("the mat") == expected
    tokenizer.limit_time(60.0)
    with pytest.raises(UserError, match="gives up on this text"):
        tokenizer.encode("a" * 40 + "b")
    assert tokenizer.encode("the mat") == expected
    tokenizer.apart.close()


def test_our_own_tokenizers_need_no_process() -> None:
    tokenizer = train_bpe([TEXT], size=280)
    tokenizer.limit_time(1.0)
    assert tokenizer.apart is None


def test_a_panic_of_the_library_is_reported_in_one_sentence() -> None:
    with pytest.raises(UserError, match="the tokenizer gives up on this text"):
        with_pattern(train_bpe([TEXT], size=280), BACKTRACKING).encode("a" * 40 + "b")


LETTERS = {"[UNK]": 0, "a": 1, "##a": 2}


def long_words() -> Inner:
    return Inner(models.WordPiece(LETTERS, unk_token="[UNK]", max_input_chars_per_word=10**9))


def long_pieces() -> Inner:
    return Inner(
        models.Unigram([("<unk>", 0.0), *(("a" * length, -1.0 * length) for length in range(1, 3000))], 0, False)
    )


@pytest.mark.parametrize(
    ("make", "blame"), [(long_words, "limit of 1,000,000,000 characters a word"), (long_pieces, "piece of 2,999 char")]
)
def test_a_model_that_tries_long_words_everywhere_is_stopped_in_time(make: Any, blame: str) -> None:
    tokenizer = Tokenizer(make())
    tokenizer.limit_time(0.3)
    assert tokenizer.apart is not None
    began = time.monotonic()
    with pytest.raises(TokenizerFault, match=rf"the tokenizer's {blame}.* takes longer than 0.3 seconds on this text"):
        tokenizer.encode("a" * 20_000)
    assert time.monotonic() - began < 20
    tokenizer.apart.close()


@pytest.mark.slow
def test_repeated_replacements_by_longer_texts_take_no_memory_in_this_process() -> None:
    inner = Inner(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence([normalizers.Replace("a", "a" * 10_000)] * 3)
    assert slow_parts(json.loads(inner.to_str())) == [
        "replacement, which may make a text 1,000,000,000,000 times as long,"
    ]
    tokenizer = Tokenizer(inner)
    tokenizer.limit_time(20.0)
    assert tokenizer.apart is not None
    with pytest.raises(
        TokenizerFault, match=r"times as long, takes (too much memory|longer than 20 seconds) on this text"
    ):
        tokenizer.encode("a")
    tokenizer.apart.close()


def test_a_backtracking_decoder_is_limited_in_every_call() -> None:
    inner = Inner(models.BPE({"a": 0, "a" * 300 + "b": 1}, []))
    inner.decoder = decoders.Replace(Regex(BACKTRACKING), "c")
    tokenizer = Tokenizer(inner)
    tokenizer.limit_time(20.0)
    assert tokenizer.apart is not None and tokenizer.piece(0) == "c"
    for ask in (lambda: tokenizer.decode([1]), lambda: tokenizer.piece(1)):
        with pytest.raises(TokenizerFault, match=r"pattern '\(a\+\)\+\$'"):
            ask()
    tokenizer.apart.close()


def test_a_process_that_fails_to_start_is_not_blamed_on_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = with_pattern(train_bpe([TEXT], size=280), GPT2)
    tokenizer.limit_time(20.0)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        TokenizerFault, match="the process that encodes the texts of an imported tokenizer ended at its start"
    ):
        tokenizer.encode("the mat")
    monkeypatch.undo()
    assert tokenizer.encode("the mat")
