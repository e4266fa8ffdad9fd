"""The words of a text: their positions, and what counts as a word."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.text.words import listed_words, spaced_words, split_words, words_of

PIECES = st.sampled_from(
    [
        "Don't",
        "U.S.",
        " ",
        "  ",
        "\t",
        "'s",
        "’",
        "a@b.de",
        "$5.50",
        "-",
        "...",
        "é",
        "e\u0301",
        "日本",
        "\u00a0",
        ":-)",
        "No.",
        "1st",
    ]
)


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join)))
def test_words_cover_the_text_in_order_except_white_space(text: str) -> None:
    for words in (split_words(text), spaced_words(text)):
        assert all(text[word.start : word.stop] == word.text for word in words)
        assert all(one.stop <= two.start for one, two in zip(words, words[1:], strict=False))
        assert "".join(word.text for word in words) == "".join(text.split())
        assert not any(set(word.text) & set(" \t\n") for word in words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't go to the U.S., Mr. Smith!", "Do n't go to the U.S. , Mr. Smith !"),
        ('He said "it\'s 5.5%" (really?) at 9:30pm...', 'He said " it \'s 5.5 % " ( really ? ) at 9:30 pm ...'),
        ("They’ll see we've $3,500.00; I cannot.", "They ’ll see we 've $ 3,500.00 ; I can not ."),
        ("J. R. R. Tolkien's well-read heirs, in No. 5.", "J. R. R. Tolkien 's well-read heirs , in No. 5 ."),
        ("No. See http://x.org/a?b=c, or a.b@c.de!?", "No . See http://x.org/a?b=c , or a.b@c.de !?"),
        ("Ends with etc.", "Ends with etc ."),
        ("the 2nd of 1990s AT&T :-)", "the 2nd of 1990s AT&T :-)"),
        ("Call 713-853-3989 on 01-Feb-02, 4x4", "Call 713-853-3989 on 01-Feb-02 , 4x4"),
        ("word's end. 'Quoted' do n't", "word 's end . ' Quoted ' do n't"),
        ("“Hello,” she said—then left…", "“ Hello , ” she said — then left …"),
        ("हिन्दी में naïve cafe\u0301s, می\u200cخواهم!", "हिन्दी में naïve cafe\u0301s , می\u200cخواهم !"),
        (" \t ", ""),
    ],
)
def test_known_texts_are_split_like_in_the_treebank(text: str, words: str) -> None:
    assert words_of(text) == words.split()


def test_splitting_already_split_words_changes_nothing() -> None:
    text = "Do n't go to the U.S. , Mr. Smith ! It 's 5.5 % ; they ’ll pay $ 10 at 9:30 pm ..."
    assert words_of(text) == text.split()


def test_listed_words_are_joined_by_spaces_and_may_contain_spaces() -> None:
    words = listed_words(["New York", "is", "", "big"])
    text = "New York is  big"
    assert [text[word.start : word.stop] for word in words] == ["New York", "is", "", "big"]


@pytest.mark.parametrize(
    "text", ["a." * 30_000, "a.b" * 10_000 + "@", "-'" * 10_000, "www." + ")" * 20_000 + "x", "1," * 30_000 + "x"]
)
def test_splitting_a_long_text_without_spaces_takes_linear_time(text: str) -> None:
    begun = time.perf_counter()
    split_words(text)
    assert time.perf_counter() - begun < 5
