import json

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.caching.encoded import encode_corpus
from clew.data.files import text_files
from clew.data.files.text_files import TextString, find_text
from clew.data.splits import TextPart
from clew.text.train import TOKENIZERS, train_bpe, train_character, train_word, train_wordpiece

TEXT = "the cat sat on the mat\nthe dog sat on  the log\n\nwhat, no cat?\n"


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_file_holds_the_ids_of_the_text(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 16)
    tokenizer = TOKENIZERS[kind](TEXT)
    corpus = encode_corpus(TextString(TEXT), tokenizer, tmp_path / "cache")
    assert np.asarray(corpus.tokens).tolist() == tokenizer.encode(TEXT)
    assert corpus.tokens.dtype == np.uint16 and len(corpus) == len(corpus.tokens)
    assert (corpus.num_characters, corpus.num_unknown) == (len(TEXT), 0)


def test_part_of_a_text_is_encoded_alone(tmp_path):
    tokenizer = train_character(TEXT)
    corpus = encode_corpus(TextPart(TextString(TEXT), 4, 7), tokenizer, tmp_path)
    assert tokenizer.decode(np.asarray(corpus.tokens)) == "cat"


def test_unknown_tokens_and_predicted_characters_are_counted(tmp_path):
    corpus = encode_corpus(TextString("  zebra the dog\n<unk>\n"), train_word(TEXT), tmp_path)
    assert (len(corpus), corpus.num_unknown, corpus.num_characters, corpus.num_target_characters) == (6, 2, 22, 15)
    assert encode_corpus(TextString("cat"), train_character(TEXT), tmp_path).num_target_characters == 2


def test_documents_are_separated_by_the_end_token(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(name)
    source = find_text(tmp_path)
    bpe, word, character = train_bpe("a"), train_word("a b"), train_character("ab\n")
    assert bpe.decode(encode_corpus(source, bpe, tmp_path / "cache").tokens[:]) == "a\n<eos>b"
    assert word.decode(encode_corpus(source, word, tmp_path / "cache").tokens[:]) == "a\nb"
    assert character.decode(encode_corpus(source, character, tmp_path / "cache").tokens[:]) == "a\nb"


def test_large_vocabularies_take_four_bytes(tmp_path):
    words = " ".join(f"w{i:05}" for i in range(2**16))
    corpus = encode_corpus(TextString("w00000 w65535"), train_word(words), tmp_path)
    assert corpus.tokens.dtype == np.uint32 and np.asarray(corpus.tokens).tolist() == [2, 2**16 + 1]


def test_an_unwritable_cache_is_reported_with_a_remedy(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    message = (
        "the encoded text cannot be stored in .*cache: {}; free some space, make the folder writable, "
        "or set the environment variable CLEW_CACHE to another folder"
    )
    with pytest.raises(UserError, match=message.format("Not a directory")):
        encode_corpus(TextString(TEXT), train_character(TEXT), tmp_path / "file" / "cache")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("clew.data.caching.encoding.write_ids", full)
    with pytest.raises(UserError, match=message.format("No space left on device")):
        encode_corpus(TextString(TEXT), train_character(TEXT), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.tokens"))


def test_progress_is_reported_in_characters(tmp_path):
    calls = []
    encode_corpus(
        TextString(TEXT), train_character(TEXT), tmp_path, progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1] == (len(TEXT), len(TEXT))


@pytest.fixture
def cached(tmp_path):
    """Encode the text into the cache, and return whether it had to be encoded anew."""
    tokenizer = train_character(TEXT)

    def encode(text=TEXT, tokenizer=tokenizer):
        calls = []
        corpus = encode_corpus(TextString(text), tokenizer, tmp_path, progress=lambda *done: calls.append(done))
        assert np.asarray(corpus.tokens).tolist() == tokenizer.encode(text)
        return bool(calls)

    return encode


def test_a_second_encoding_is_found_in_the_cache(cached, tmp_path):
    assert [cached(), cached()] == [True, False]
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["000000.tokens", "index.json"]


def test_a_changed_text_or_tokenizer_is_encoded_again(cached):
    cached()
    assert cached(TEXT[:-1])
    assert cached(tokenizer=train_character(TEXT + "€"))
    assert not cached()


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def drop_a_field(path):
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "dtype"})
    )


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".tokens", half),
        (".tokens", flip_a_bit),
        (".tokens", lambda path: path.write_bytes(b"")),
        (".tokens", lambda path: path.unlink()),
        (".json", half),
        (".json", drop_a_field),
        (".json", lambda path: path.write_text("3")),
        (".json", lambda path: path.unlink()),
    ],
)
def test_a_damaged_encoding_is_replaced(cached, tmp_path, suffix, damage):
    cached()
    damage(next(tmp_path.rglob(f"*{suffix}")))
    assert [cached(), cached()] == [True, False]


def test_an_interrupted_encoding_leaves_no_tokens(tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_corpus(TextString(TEXT), train_character(TEXT), tmp_path, progress=interrupt)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["shards.jsonl"]


def test_a_text_without_tokens_is_refused(tmp_path):
    message = "the text: it has no tokens, only 3 characters of white space; use a text with words"
    with pytest.raises(UserError, match=message):
        encode_corpus(TextString("   "), train_word(TEXT), tmp_path)


def test_a_document_of_white_space_encodes_to_only_the_end_token(tmp_path):
    (tmp_path / "a.txt").write_text("  ", encoding="utf-8")
    (tmp_path / "b.txt").write_text("the cat", encoding="utf-8")
    corpus = encode_corpus(
        find_text([tmp_path / "a.txt", tmp_path / "b.txt"]), train_wordpiece(TEXT), tmp_path / "cache"
    )
    assert (len(corpus), corpus.num_characters, corpus.num_target_characters) == (3, 10, 7)


class Rewritten:
    """A text that differs each time it is read."""

    def __init__(self, *texts):
        self.texts = list(texts)

    def pieces(self):
        return TextString(self.texts.pop(0)).pieces()

    def __str__(self):
        return "book.txt"


def test_a_text_that_changes_while_it_is_read_is_refused_and_not_cached(tmp_path):
    message = "book.txt: it changed while it was read; make sure that no other program writes to it, and try again"
    with pytest.raises(UserError, match=message):
        encode_corpus(Rewritten(TEXT, TEXT.upper()), train_character(TEXT), tmp_path)
    assert list(tmp_path.iterdir()) == []
