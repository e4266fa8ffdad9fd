"""SentencePiece files (Kudo and Richardson 2018): read and write them as Protocol Buffers messages, and convert them to
tokenizers.

A file is a message of fields, each a number and a value. Only the fields that affect encoding are read:

    1 pieces (1 piece, 2 score, 3 type)   2 trainer (3 model_type, 35 byte_fallback, 40 unk_id)
    3 normaliser (2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces)
"""

import base64
import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from clew.core.errors import UserError
from clew.core.files import read_bytes

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
LARGEST = 2**25
"""The maximum size of a file in bytes; a million pieces take less."""
BYTES = re.compile("<0x[0-9A-F]{2}>")
KINDS = {UNIGRAM: "unigram", BPE: "bpe", 3: "word", 4: "char"}


class Piece(NamedTuple):
    text: str
    score: float = 0.0
    kind: int = NORMAL


@dataclass(frozen=True)
class SentencePieces:
    """The contents of a file: the pieces by id, and the normalisation of texts."""

    path: Path
    kind: int
    pieces: list[Piece]
    byte_fallback: bool
    charsmap: bytes
    dummy_prefix: bool
    removes_spaces: bool

    @property
    def unknown(self) -> int:
        return next(id for id, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read_sentencepiece(path: Path) -> SentencePieces:
    content = read_bytes(path, LARGEST)
    pieces: list[Piece] = []
    parts: dict[int, list[bytes]] = {2: [], 3: []}
    try:
        for number, value in fields_of(content):
            if number == 1:
                pieces.append(read_piece(value))
            elif number in parts:
                parts[number].append(value)
        trainer, normaliser = (dict(fields_of(b"".join(values))) for values in parts.values())
    except (ValueError, LookupError, struct.error, TypeError, AttributeError):
        raise UserError(f"{path} is not a SentencePiece file, or is cut short; copy it again") from None
    kind = int(trainer.get(3, UNIGRAM))
    if kind not in (UNIGRAM, BPE):
        raise UserError(f"{path} is a {KINDS.get(kind, kind)} model; clew reads unigram and bpe")
    if trainer.get(24) or not normaliser.get(5, 1):
        raise UserError(
            f"{path} does not mark spaces by {SPACE} before words; train it without treat_whitespace_as_suffix"
        )
    if not any(piece.kind == UNKNOWN for piece in pieces):
        raise UserError(f"{path} has no unknown piece; it is cut short: copy it again")
    charsmap = normaliser.get(2, b"")
    return SentencePieces(
        path, kind, pieces, bool(trainer.get(35)), charsmap, bool(normaliser.get(3, 1)), bool(normaliser.get(4, 1))
    )


def fields_of(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of a message's fields: integers, four or eight raw bytes, or byte strings."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ValueError("no field has the number 0")
        if wire == 0:
            value, place = varint(data, place)
            yield number, value
            continue
        if wire == 2:
            size, place = varint(data, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if place + size > len(data):
            raise ValueError("cut short")
        yield number, data[place : place + size]
        place += size


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
        shift += 7
    raise ValueError("a number of more than ten bytes")


def read_piece(data: bytes) -> Piece:
    fields = dict(fields_of(data))
    score = struct.unpack("<f", fields[2])[0] if 2 in fields else 0.0
    return Piece(fields[1].decode(), score, int(fields.get(3, NORMAL)))


def write_sentencepiece(path: Path, contents: SentencePieces) -> None:
    """Write a file with these pieces and this normalisation."""
    pieces = b"".join(
        field(1, field(1, piece.text.encode()) + field(2, piece.score) + field(3, piece.kind))
        for piece in contents.pieces
    )
    trainer = field(3, contents.kind) + field(35, int(contents.byte_fallback)) + field(40, contents.unknown)
    normaliser = (
        field(2, contents.charsmap)
        + field(3, int(contents.dummy_prefix))
        + field(4, int(contents.removes_spaces))
        + field(5, 1)
    )
    path.write_bytes(pieces + field(2, trainer) + field(3, normaliser))


def field(number: int, value: int | float | bytes) -> bytes:
    """Encode a field of a message: an integer, a float as four bytes, or a byte string."""
    if isinstance(value, bytes):
        return as_varint(number << 3 | 2) + as_varint(len(value)) + value
    return (
        as_varint(number << 3 | 5) + struct.pack("<f", value)
        if isinstance(value, float)
        else as_varint(number << 3) + as_varint(value)
    )


def as_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def unigram_pieces(tokenizer: tokenizers.Tokenizer) -> SentencePieces | None:
    """Return the contents of a unigram file for this tokenizer; None if converting them back does not give the same
    tokenizer."""
    about = json.loads(tokenizer.to_str())
    model, splitting = about["model"], about["pre_tokenizer"] or {}
    if model["type"] != "Unigram" or splitting.get("type") != "Metaspace":
        return None
    added = {token["content"]: token["special"] for token in about["added_tokens"]}
    bytes_in = {text for text, _ in model["vocab"] if BYTES.fullmatch(text)} if model["byte_fallback"] else set()

    def kind_of(id: int, text: str) -> int:
        if id == model["unk_id"]:
            return UNKNOWN
        return (CONTROL if added[text] else USER) if text in added else BYTE if text in bytes_in else NORMAL

    pieces = [Piece(text, score, kind_of(id, text)) for id, (text, score) in enumerate(model["vocab"])]
    steps = (about["normalizer"] or {}).get("normalizers", [])
    charsmap = (
        base64.b64decode(steps[0]["precompiled_charsmap"]) if steps and steps[0]["type"] == "Precompiled" else b""
    )
    removes = any(step["type"] == "Strip" for step in steps)
    contents = SentencePieces(
        Path(), UNIGRAM, pieces, model["byte_fallback"], charsmap, splitting.get("prepend_scheme") == "always", removes
    )
    again = json.loads(tokenizer_of(contents).to_str())
    return (
        contents
        if all(again[part] == about[part] for part in ("normalizer", "pre_tokenizer", "model", "decoder"))
        else None
    )


def tokenizer_of(
    contents: SentencePieces, pieces: Sequence[Piece] | None = None, unknown: int | None = None
) -> tokenizers.Tokenizer:
    """Build a tokenizer that splits texts as SentencePiece does, with the pieces of the file or the given pieces."""
    pieces = contents.pieces if pieces is None else pieces
    unknown = contents.unknown if unknown is None else unknown
    build = unigram if contents.kind == UNIGRAM else byte_pairs
    inner = build(contents, pieces, unknown)
    inner.add_special_tokens([piece.text for piece in pieces if piece.kind in (CONTROL, UNKNOWN)])
    inner.add_tokens([tokenizers.AddedToken(piece.text, normalized=False) for piece in pieces if piece.kind == USER])
    return inner


def unigram(contents: SentencePieces, pieces: Sequence[Piece], unknown: int) -> tokenizers.Tokenizer:
    vocabulary = [(piece.text, piece.score) for piece in pieces]
    inner = tokenizers.Tokenizer(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=contents.byte_fallback))
    steps: list[Any] = [normalizers.Precompiled(contents.charsmap)] if contents.charsmap else []
    if contents.removes_spaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    inner.normalizer = normalizers.Sequence(steps)
    scheme = "always" if contents.dummy_prefix else "never"
    inner.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=True)
    inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE, prepend_scheme=scheme)])
    return inner


def byte_pairs(contents: SentencePieces, pieces: Sequence[Piece], unknown: int) -> tokenizers.Tokenizer:
    """Build a BPE tokenizer. Any two pieces whose concatenation is a piece are a merge; merges into better-scored
    pieces come first."""
    ids = {piece.text: id for id, piece in enumerate(pieces)}
    merges = []
    for piece in sorted(
        (piece for piece in pieces if piece.kind == NORMAL), key=lambda piece: (-piece.score, ids[piece.text])
    ):
        cuts = ((piece.text[:place], piece.text[place:]) for place in range(1, len(piece.text)))
        merges += sorted(
            (cut for cut in cuts if cut[0] in ids and cut[1] in ids), key=lambda cut: (ids[cut[0]], ids[cut[1]])
        )
    model = models.BPE(ids, merges, unk_token=pieces[unknown].text, fuse_unk=True, byte_fallback=contents.byte_fallback)
    inner = tokenizers.Tokenizer(model)
    steps: list[Any] = [normalizers.Precompiled(contents.charsmap)] if contents.charsmap else []
    if contents.removes_spaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    steps += [normalizers.Prepend(SPACE)] if contents.dummy_prefix else []
    inner.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    stripped = [decoders.Strip(" ", 1, 0)] if contents.dummy_prefix else []
    inner.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *stripped]
    )
    return inner
