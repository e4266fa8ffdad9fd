"""Tokenizers read from vocabulary files: SentencePiece models, and byte pairs in two files."""

from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.interop.huggingface.tokenizer_files import read_tokenizer
from clew.interop.sentencepiece_files import read_sentencepiece, tokenizer_of
from clew.text.tokenizer import Tokenizer
from tests.interop.checkpoints import TEXTS, TOKENIZERS

sentencepiece = pytest.importorskip("sentencepiece")

GERMAN = [
    "die Katze saß auf der Matte",
    "ein Hund lief weg",
    "es regnet !",
    "der Hund und die Katze, und es regnet auf den Hund",
]


def learn(texts: list[str], path: Path, **options: Any) -> Path:
    """Train a SentencePiece model; return its file."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5), model_prefix=str(path), hard_vocab_limit=False, minloglevel=2, **options
    )
    return path.with_name(path.name + ".model")


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "unigram", "vocab_size": 60},
        {"model_type": "unigram", "vocab_size": 320, "byte_fallback": True},
        {"model_type": "bpe", "vocab_size": 60},
        {
            "model_type": "bpe",
            "vocab_size": 320,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
    ],
    ids=["unigram", "unigram with bytes", "byte pairs", "byte pairs as Llama's"],
)
def test_a_sentencepiece_file_tokenizes_like_sentencepiece(options: dict[str, Any], tmp_path: Path) -> None:
    path = learn([*TEXTS, *GERMAN], tmp_path / "pieces", **options)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ours = tokenizer_of(read_sentencepiece(path))
    texts = [
        *TEXTS,
        *GERMAN,
        "  two  spaces ",
        "",
        "ﬁne ½ ① Ａ",
        "a\tb\u3000c",
        "дом 家",
        "un\u00adknown x\u200by",
        "e\u0301",
    ]
    for text in texts:
        assert ours.encode(text, add_special_tokens=False).ids == theirs.encode(text), text
    for text in [*TEXTS, *GERMAN]:
        assert ours.decode(theirs.encode(text)) == text


def test_truncated_and_unsupported_files_are_rejected(tmp_path: Path) -> None:
    path = learn(TEXTS, tmp_path / "pieces", model_type="unigram", vocab_size=40)
    original = path.read_bytes()
    for content in (original[:-7], original[:300], b"\x00\xff" * 20, b"{}"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="is not a SentencePiece file, or is cut short; copy it again"):
            read_sentencepiece(path)
    path.write_bytes(b"")
    with pytest.raises(UserError, match="has no unknown piece; it is cut short: copy it again"):
        read_sentencepiece(path)
    path = learn(TEXTS, tmp_path / "suffix", model_type="unigram", vocab_size=40, treat_whitespace_as_suffix=True)
    with pytest.raises(
        UserError, match="does not mark spaces by ▁ before words; train it without treat_whitespace_as_suffix"
    ):
        read_sentencepiece(path)
    path = learn(TEXTS, tmp_path / "word", model_type="word", vocab_size=12)
    with pytest.raises(UserError, match="is a word model; clew reads unigram and bpe"):
        read_sentencepiece(path)


def test_pieces_have_the_ids_of_each_kind_of_checkpoint(tmp_path: Path) -> None:
    path = learn(TEXTS, tmp_path / "tokenizer", model_type="bpe", vocab_size=320, byte_fallback=True)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    llama = read_tokenizer(tmp_path, "llama")
    assert llama.encode_batch(TEXTS) == theirs.encode(TEXTS)
    assert llama.frame is not None and (llama.frame.before, llama.end, llama.unknown) == ([1], 2, None)
    learn(TEXTS, tmp_path / "pieces", model_type="unigram", vocab_size=45).rename(tmp_path / "sentencepiece.bpe.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))
    xlm = read_tokenizer(tmp_path, "xlm-roberta")
    assert xlm.encode_batch([*TEXTS, "ж"]) == [
        [id + 1 if id else 3 for id in ids] for ids in theirs.encode([*TEXTS, "ж"])
    ]
    assert xlm.frame is not None and xlm.frame.around([7], [8]).tokens == [0, 7, 2, 2, 8, 2]
    assert (xlm.pad, xlm.end, xlm.mask) == (1, 2, theirs.get_piece_size() + 1)


def test_a_file_without_the_enclosing_tokens_is_rejected(tmp_path: Path) -> None:
    pieces = {"model_type": "unigram", "vocab_size": 45, "bos_id": -1, "eos_id": -1}
    path = learn(TEXTS, tmp_path / "tokenizer", **pieces)
    with pytest.raises(
        UserError, match="does not have the tokenizer's token '<s>'; set its bos_token in tokenizer_config.json"
    ):
        read_tokenizer(tmp_path, "llama")
    path.rename(tmp_path / "sentencepiece.bpe.model")
    with pytest.raises(
        UserError,
        match="does not have the tokens <s> and </s>, which enclose a text; it is not this model's file: copy it",
    ):
        read_tokenizer(tmp_path, "camembert")


def test_camembert_has_its_own_tokens_before_the_pieces(tmp_path: Path) -> None:
    learn(TEXTS, tmp_path / "pieces", model_type="unigram", vocab_size=45).rename(tmp_path / "sentencepiece.bpe.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))
    ours = read_tokenizer(tmp_path, "camembert")
    assert ours.encode_batch([*TEXTS, "ж"]) == [
        [id + 4 if id else 3 for id in ids] for ids in theirs.encode([*TEXTS, "ж"])
    ]
    assert ours.tokens[:7] == ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"]
    assert ours.frame is not None and ours.frame.around([7], [8]).tokens == [5, 7, 6, 6, 8, 6]
    assert (ours.pad, ours.end, ours.mask, ours.unknown) == (1, 6, theirs.get_piece_size() + 4, 3)


@pytest.mark.parametrize(("kind", "model_type"), [("GPT2", "gpt2"), ("Roberta", "roberta")])
def test_byte_pairs_are_read_from_their_two_files(kind: str, model_type: str, tmp_path: Path) -> None:
    inner = TOKENIZERS[kind]()
    inner.model.save(str(tmp_path))
    original, loaded = Tokenizer(inner), read_tokenizer(tmp_path, model_type)
    texts = [*TEXTS, "naïve\n  дом ½"]
    assert loaded.encode_batch(texts) == original.encode_batch(texts)
    assert (loaded.frame, loaded.end, loaded.pad, loaded.mask) == (
        original.frame,
        original.end,
        original.pad,
        original.mask,
    )
    (tmp_path / "merges.txt").write_text("one\n")
    with pytest.raises(
        UserError,
        match="vocab.json must have the id of each token, and merges.txt two tokens per line; copy both again",
    ):
        read_tokenizer(tmp_path, model_type)
    (tmp_path / "merges.txt").write_text("not merges\n")
    with pytest.raises(UserError, match=r"does not match vocab.json \(.*\); copy both again"):
        read_tokenizer(tmp_path, model_type)


def test_unicode_line_separators_are_tokens(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2028", "a", "\x85", "b"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    assert read_tokenizer(tmp_path, "bert").tokens == tokens
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(UserError, match="vocab.txt is not text in UTF-8"):
        read_tokenizer(tmp_path, "bert")
