"""Which patterns may take for ever, and that no text does."""

import time

import pytest

from clew.core.errors import UserError
from clew.text.patterns import slow_patterns
from clew.text.train import train_bpe
from tests.serving.asking import BACKTRACKING, with_pattern

TEXT = "the cat sat on the mat.\nit sat.\n"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@pytest.mark.parametrize("pattern", [r"[\s\S]", " {2,}", r"\s+", r"\p{L}*", "a", r"[^\]a]{1,3}", r"\."])
def test_one_class_of_characters_needs_no_bound(pattern: str) -> None:
    assert slow_patterns({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}}}) == []


@pytest.mark.parametrize("pattern", [BACKTRACKING, "(a|a)*b", "a*a*b", "[a]{1,9999}", GPT2, "(?=a)", "^a"])
def test_any_other_pattern_does_wherever_it_stands(pattern: str) -> None:
    cut = {"type": "Split", "pattern": {"Regex": pattern}}
    for place in ({"pre_tokenizer": {"pretokenizers": [cut]}}, {"normalizer": {"normalizers": [cut]}}, {"decoder": cut}):
        assert slow_patterns(place) == [pattern]


@pytest.mark.parametrize("text", ["", "the cat, it's 99 mats\n\n  sat.", "😀 e\u0301 <eos>\t\0", "▁##a" * 50])
def test_a_tokenizer_under_a_limit_gives_the_tokens_that_it_gave(text: str) -> None:
    free, limited = with_pattern(train_bpe([TEXT], size=280), GPT2), with_pattern(train_bpe([TEXT], size=280), GPT2)
    limited.limit_time(20.0)
    assert limited.apart is not None
    assert limited.encode(text) == free.encode(text)
    assert limited.encode_with_offsets(text) == free.encode_with_offsets(text)
    assert limited.encode_batch([text, "cat"]) == free.encode_batch([text, "cat"])
    assert limited.decode(free.encode(text)) == free.decode(free.encode(text))
    assert limited.normalize(text) == free.normalize(text)
    limited.apart.close()


def test_a_text_that_takes_too_long_is_refused_with_the_pattern_and_the_next_is_read() -> None:
    tokenizer = with_pattern(train_bpe([TEXT], size=280), BACKTRACKING)
    expected = tokenizer.encode("the mat")
    tokenizer.limit_time(0.5)
    assert tokenizer.apart is not None
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(UserError, match=r"pattern '\(a\+\)\+\$' takes longer than 0.5 seconds on this text; ask with another text"):
            tokenizer.encode(("a" * 20 + "b") * 400)
        assert time.monotonic() - began < 60
        assert tokenizer.encode("the mat") == expected
    tokenizer.limit_time(60.0)
    with pytest.raises(UserError, match="gives up on this text"):
        tokenizer.encode("a" * 40 + "b")
    assert tokenizer.encode("the mat") == expected
    tokenizer.apart.close()


def test_a_tokenizer_of_ours_needs_no_process() -> None:
    tokenizer = train_bpe([TEXT], size=280)
    tokenizer.limit_time(1.0)
    assert tokenizer.apart is None


def test_a_panic_outside_a_server_is_one_sentence() -> None:
    with pytest.raises(UserError, match="the tokenizer gives up on this text"):
        with_pattern(train_bpe([TEXT], size=280), BACKTRACKING).encode("a" * 40 + "b")
