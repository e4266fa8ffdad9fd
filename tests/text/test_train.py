import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.corpora.samples import sample_path
from clew.text.train import (
    LONGEST,
    TOKENIZERS,
    short_words,
    train_bpe,
    train_character,
    train_unigram,
    train_word,
    train_wordpiece,
)

TEXT = "the cat sat on the mat\nthe dog sat on the log\n\nwhat, no cat?\n"
by_kind = pytest.mark.parametrize("kind", TOKENIZERS)


def test_characters_are_sorted_after_unk():
    assert train_character("b\na c").tokens == ["<unk>", "\n", " ", "a", "b", "c"]


def test_rare_characters_become_unknown():
    tokenizer = train_character("aaabbc", size=3)
    assert tokenizer.tokens == ["<unk>", "a", "b"]
    assert tokenizer.encode("abc") == [1, 2, 0]
    assert train_character("aaabbc", min_count=3).tokens == ["<unk>", "a"]


def test_words_are_ordered_by_frequency_and_then_by_name():
    assert train_word("b a c c\nb a d").tokens == ["<unk>", "<eos>", "a", "b", "c", "d"]


def test_the_penn_treebank_convention():
    tokenizer = train_word(" no it was n't black monday \n <unk> it was \n")
    ids = tokenizer.encode(" no it <unk> tuesday \n")
    assert [tokenizer.token(i) for i in ids] == ["no", "it", "<unk>", "<unk>", "<eos>"]
    assert tokenizer.tokens.count("<unk>") == tokenizer.tokens.count("<eos>") == 1
    assert tokenizer.decode(tokenizer.encode(" no it was \n it was \n")) == "no it was\nit was\n"


def test_rare_words_become_unknown():
    assert train_word("a a a b b c\n", size=4).tokens == ["<unk>", "<eos>", "a", "b"]
    assert train_word("a a a b b c\n", min_count=3).tokens == ["<unk>", "<eos>", "a"]


def test_bpe_merges_the_most_frequent_pair_first():
    tokenizer = train_bpe("ab ab ab abc", size=259)
    assert tokenizer.vocabulary == 259
    assert tokenizer.tokens[257:] == ["ab", "Ġab"]


def test_bpe_stops_at_pairs_that_are_too_rare():
    assert train_bpe("ab ab ab", min_count=4).vocabulary == 257


def test_wordpiece_continues_words_with_two_hashes():
    tokenizer = train_wordpiece("ab ab ab ba", size=30)
    assert tokenizer.tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert [tokenizer.token(i) for i in tokenizer.encode("abab")] == ["ab", "##a", "##b"]
    assert tokenizer.decode(tokenizer.encode("abab ab")) == "abab ab"


def test_unigram_encodes_unseen_characters_as_bytes():
    tokenizer = train_unigram("ab ab ab")
    assert [tokenizer.token(i) for i in tokenizer.encode("é")] == ["<0xC3>", "<0xA9>"]


def test_unigram_keeps_frequent_words_whole():
    plays = sample_path("tinyshakespeare").read_text(encoding="utf-8")[:200_000]
    tokenizer = train_unigram(plays, size=500)
    assert {" the", " and", "ing"} <= set(tokenizer.tokens)
    assert [tokenizer.token(i) for i in tokenizer.encode(" and the")] == [" and", " the"]


@by_kind
def test_lowercase_makes_case_disappear(kind):
    tokenizer = TOKENIZERS[kind](TEXT.upper(), lowercase=True)
    assert tokenizer.encode("The CAT") == tokenizer.encode("the cat")
    assert tokenizer.decode(tokenizer.encode("The CAT")) == "the cat"


@by_kind
def test_texts_may_be_a_string_a_list_or_an_iterator(kind):
    train = TOKENIZERS[kind]
    lines = TEXT.splitlines(keepends=True)
    assert train(TEXT).hash == train(lines).hash == train(iter(lines)).hash


@by_kind
def test_training_in_another_process_gives_the_same_tokenizer(kind):
    program = f"from clew.text.train import TOKENIZERS; print(TOKENIZERS[{kind!r}]({TEXT * 5!r}).hash)"
    second = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert second.stdout.strip() == TOKENIZERS[kind](TEXT * 5).hash


@settings(max_examples=30, deadline=None)
@given(text=st.text("ab <\n\0€", min_size=1, max_size=60), room=st.integers(0, 5))
def test_all_sizes_down_to_the_smallest_are_reached(text, room):
    smallest = 258 + len(set(text))
    assert train_unigram(text, size=smallest + room).vocabulary <= smallest + room
    assert train_bpe(text, size=257 + room).vocabulary <= 257 + room
    assert train_character(text, size=2 + room).vocabulary <= 2 + room


@by_kind
@pytest.mark.parametrize("nothing", ["", [], [""], ()], ids=repr)
def test_an_empty_text_is_rejected(kind, nothing):
    with pytest.raises(UserError, match="there is no text to train a tokenizer on; give at least one character"):
        TOKENIZERS[kind](nothing)


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        (
            "character",
            1,
            (
                r"a character tokenizer needs a size of at least 2 \(<unk> and one character\), got 1; set text.size=2"
                r" or more"
            ),
        ),
        (
            "word",
            2,
            (
                r"a word tokenizer needs a size of at least 3 \(<unk>, <eos> and one word\), got 2; set text.size=3 or"
                r" more"
            ),
        ),
        (
            "bpe",
            256,
            r"a BPE tokenizer needs a size of at least 257 \(<eos> and 256 bytes\), got 256; set text.size=257 or more",
        ),
        (
            "wordpiece",
            7,
            (
                r"this WordPiece tokenizer needs a size of at least 8 \(.*and the text's characters, alone and after"
                r" ##\), got 7"
            ),
        ),
        (
            "unigram",
            260,
            r"this Unigram tokenizer needs a size of at least 261 \(.*256 bytes and the text's characters\), got 260",
        ),
    ],
)
def test_a_too_small_size_is_rejected(kind, size, message):
    with pytest.raises(UserError, match=message):
        TOKENIZERS[kind]("ab ", size=size)


def test_a_min_count_that_leaves_no_words_is_rejected():
    with pytest.raises(
        UserError, match="the text has no word that occurs 5 times or more; give more text or lower text.min_count"
    ):
        train_word("a b\n", min_count=5)
    with pytest.raises(UserError, match="the text has no character that occurs 5 times or more"):
        train_character("ab", min_count=5)


@pytest.mark.parametrize("train", [train_word, train_wordpiece])
def test_text_of_only_white_space_has_no_words(train):
    with pytest.raises(UserError, match="the text has no word that occurs 1 times or more"):
        train(" \n ")


def test_unigram_rejects_min_count():
    with pytest.raises(UserError, match=r"a Unigram tokenizer has no min_count \(got 2\); set text.size to limit it"):
        train_unigram("ab", min_count=2)


def test_only_implausibly_long_words_are_cut():
    text = "a word and " + "x" * LONGEST + " another\n" + "\n" * 3000
    assert list(short_words([text])) == [text]
    assert list(short_words(["ab " + "x" * 2500 + " c" + " " * 1500])) == [
        "ab " + "x" * 1000,
        "x" * 1000,
        "x" * 500 + " c" + " " * 1000,
        " " * 500,
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_training_on_a_gigantic_word_is_fast(kind):
    text = "the cat sat\n" + "日本語" * 60_000
    tokenizer = TOKENIZERS[kind]([text], size=300 if kind != "unigram" else 400)
    if kind in ("character", "bpe", "unigram"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@by_kind
def test_extra_special_tokens_have_ids_that_no_text_is_encoded_to(kind):
    texts = ["ask <2de> for it\n<2de>", "and <2fr> <eos>"]
    tokenizer = TOKENIZERS[kind](texts, specials=["<2de>", "<2fr>", "<eos>"])
    plain = TOKENIZERS[kind](texts)
    language_ids = [tokenizer.id(token) for token in ("<2de>", "<2fr>")]
    assert len(set(language_ids)) == 2 and tokenizer.tokens.count("<eos>") == 1
    assert tokenizer.vocabulary >= plain.vocabulary
    if kind != "word":  # it encodes words that are tokens as these tokens
        assert not set(language_ids) & {i for text in texts for i in tokenizer.encode(text)}
    assert tokenizer.decode(tokenizer.encode("and it")).strip() == plain.decode(plain.encode("and it")).strip()
    assert type(tokenizer).from_json(tokenizer.to_json()).id("<2fr>") == language_ids[1]
