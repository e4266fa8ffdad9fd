"""Write a tokenizer's files for `transformers`: tokenizer.json and the roles of special tokens. A translator has one
tokenizer for both sides, or Marian's two SentencePiece files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from clew.core.errors import UserError
from clew.core.files import write_json
from clew.core.wording import argument
from clew.interop.sentencepiece_files import USER, Piece, unigram_pieces, write_sentencepiece
from clew.text.tokenizer import FILE, HIDDEN, Tokenizer

ENDLESS = 10**30
"""The value for an unbounded length in `transformers`."""


def write_tokenizer(folder: Path, vocabularies: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Write the tokenizer of a run; for a translator the shared one, or both."""
    tokenizer: Tokenizer = vocabularies.get("tokenizer") or vocabularies["source"]
    kind: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if "target" in vocabularies:
        kind = write_both(folder, tokenizer, vocabularies["target"])
    else:
        tokenizer.save(folder / FILE)
    specials = specials_of(tokenizer, config)
    longest = config.get("n_positions") or config.get("max_position_embeddings") or ENDLESS
    reads_segments = config.get("type_vocab_size", 0) > 1
    names = ["input_ids", *(["token_type_ids"] if reads_segments else []), "attention_mask"]
    options = {
        **kind,
        "model_max_length": longest,
        "model_input_names": names,
        "clean_up_tokenization_spaces": False,
        **specials,
    }
    write_json(folder / "tokenizer_config.json", options)
    write_json(folder / "special_tokens_map.json", specials)


def write_both(folder: Path, source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """Write a translator's tokenizers: two SentencePiece files with the ids of their pieces, or one shared tokenizer
    that appends the end token. Return the fields for tokenizer_config.json.

    A tokenizer counts as SentencePiece if it can be written as such a file and read back unchanged (`pieces_of`).
    """
    sides = {"source": unigram_pieces(source.inner), "target": unigram_pieces(target.inner)}
    if None not in sides.values():
        for side, contents in sides.items():
            assert contents is not None
            write_sentencepiece(
                folder / f"{side}.spm",
                replace(contents, pieces=[piece for piece in contents.pieces if is_found(piece)]),
            )
        ids = [
            {token.removeprefix(HIDDEN): id for id, token in enumerate(tokenizer.tokens)}
            for tokenizer in (source, target)
        ]
        write_json(folder / "vocab.json", ids[0])
        if ids[0] != ids[1]:
            write_json(folder / "target_vocab.json", ids[1])
        return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": ids[0] != ids[1]}
    if source.hash != target.hash:
        raise UserError(
            f"Marian has one tokenizer for both sides, or two of SentencePiece, but this run has a {source.kind}"
            f" tokenizer for each side; train with text.joint=true, or {other_formats()}"
        )
    inner = tokenizers.Tokenizer.from_str(source.to_json())
    if source.end is not None and source.frame is None:
        end = source.token(source.end)
        inner.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, source.end)]
        )
    Tokenizer(inner).save(folder / FILE)
    return {"tokenizer_class": "PreTrainedTokenizerFast"}


def is_found(piece: Piece) -> bool:
    """Whether a text may contain this piece: not a piece of only the other side, and not a language token, which is
    split off before."""
    return not piece.text.startswith(HIDDEN) and not (
        piece.kind == USER and piece.text.startswith(">>") and piece.text.endswith("<<")
    )


def specials_of(tokenizer: Tokenizer, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the tokens with a role: unknown, beginning, end, padding, mask, and those around a text for models that
    read it whole."""
    frame = tokenizer.frame
    whole = tokenizer.mask is not None and frame is not None
    around = frame.around([]).tokens if frame is not None else []
    ids = {
        "unk_token": tokenizer.unknown,
        "bos_token": config.get("bos_token_id"),
        "eos_token": config.get("eos_token_id", tokenizer.end),
        "pad_token": config.get("pad_token_id") if config.get("pad_token_id") is not None else tokenizer.pad,
        "cls_token": around[0] if whole and around else None,
        "sep_token": around[-1] if whole and around else None,
        "mask_token": tokenizer.mask,
    }
    return {name: tokenizer.token(id) for name, id in ids.items() if id is not None}


def other_formats() -> str:
    """Return the remedy for a run that the Hugging Face layout cannot hold."""
    return f"use {argument('format', 'onnx', option='to')} or {argument('format', 'torch', option='to')}"
