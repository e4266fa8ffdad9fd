"""llama2.c's checkpoints: seven whole numbers, then every weight as float32, one after the other; and tokenizer.bin beside them.

    dim, hidden_dim, num_layers, num_heads, num_kv_heads, vocabulary (negative: the output layer has a table of its own), max_length

Its rotary positions turn neighbouring features, clew's features half a head apart: queries and keys are reordered so that both agree.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import processors
from torch import Tensor

from clew.core.errors import UserError
from clew.interop.imported import Imported
from clew.interop.sentencepiece_files import BPE, BYTE, CONTROL, SPACE, UNKNOWN, Piece, SentencePieces, tokenizer_of
from clew.interop.weight_maps import numbered
from clew.text.tokenizer import Tokenizer

HEADER = 7 * 4
VERSIONED = 0x616B3432
"""What later versions of the format begin with."""
TOKENIZER = "tokenizer.bin"
ATTENTION, NETWORK = "body.layers.layers.{2n}", "body.layers.layers.{2n+1}"
SPECIALS = {0: ("<unk>", UNKNOWN), 1: ("<s>", CONTROL), 2: ("</s>", CONTROL)}
NUM_BYTES = 256


class Header(NamedTuple):
    dim: int
    hidden_dim: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocabulary: int
    max_length: int
    tied: bool

    @property
    def head_dim(self) -> int:
        return self.dim // self.num_heads


def is_llama2c(path: Path) -> bool:
    return path.is_file() and path.suffix == ".bin"


def read_llama2c(path: Path) -> Imported:
    header = read_header(path)
    tokenizer = read_tokenizer(path.parent / TOKENIZER, header.vocabulary)
    model = {
        "family": "llama",
        "dim": header.dim,
        "num_layers": header.num_layers,
        "num_heads": header.num_heads,
        "num_kv_heads": header.num_kv_heads,
        "hidden_dim": header.hidden_dim,
        "max_length": header.max_length,
        "norm_eps": 1e-5,
    }
    settings = {
        "text": {"tokenizer": "bpe"},
        "model": model,
        "task": {"name": "language_model", "tied": header.tied, "bias": False},
        "training": {"length": min(header.max_length, 1024)},
    }

    def fill(config: Any, tensors: dict[str, Tensor]) -> list[str]:
        floats = np.memmap(path, dtype="<f4", mode="r", offset=HEADER)
        place = 0
        for name, shape in layout(header):
            size = int(np.prod(shape))
            if name is not None:
                found = torch.from_numpy(np.array(floats[place : place + size])).view(shape)
                tensors[name].copy_(by_halves(found, header.head_dim) if name.endswith(("query.weight", "key.weight")) else found)
            place += size
        return []

    return Imported("llama2.c", settings, {"tokenizer": tokenizer}, fill)


def read_header(path: Path) -> Header:
    with path.open("rb") as file:
        start = file.read(HEADER)
    if len(start) < HEADER:
        raise UserError(f"{path} has {len(start)} bytes, and a llama2.c checkpoint begins with {HEADER}; copy it again")
    numbers = struct.unpack("<7i", start)
    if numbers[0] == VERSIONED:
        raise UserError(
            f"{path} is of version {numbers[1]} of llama2.c's format; clew reads version 0, which its export.py writes by default"
        )
    dim, hidden, layers, heads, groups, vocabulary, longest = *numbers[:5], abs(numbers[5]), numbers[6]
    header = Header(dim, hidden, layers, heads, groups, vocabulary, longest, tied=numbers[5] > 0)
    sizes = f"dim={dim}, hidden_dim={hidden}, layers={layers}, heads={heads}, kv_heads={groups}, vocabulary={vocabulary}, length={longest}"
    if min(header[:7]) < 1 or max(header[:7]) > 2**24 or dim % heads or heads % groups or (dim // heads) % 2:
        raise UserError(f"{path} is no llama2.c checkpoint: its first numbers say {sizes}; a pickle of torch is converted by its export.py")
    expected, there = HEADER + 4 * sum(int(np.prod(shape)) for _, shape in layout(header)), path.stat().st_size
    if there != expected:
        what = "cut short: copy it again" if there < expected else "no llama2.c checkpoint of version 0"
        raise UserError(f"{path} has {there:,} bytes, but by its first numbers ({sizes}) it should have {expected:,}; it is {what}")
    return header


def layout(header: Header) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """The weights in the order of the file, and their shapes; None is what clew computes itself."""
    dim, hidden, narrow = header.dim, header.hidden_dim, header.num_kv_heads * header.head_dim
    yield "body.embedding.tokens.weight", (header.vocabulary, dim)
    for name, shape in (
        (f"{ATTENTION}.norm.weight", (dim,)),
        (f"{ATTENTION}.layer.query.weight", (dim, dim)),
        (f"{ATTENTION}.layer.key.weight", (narrow, dim)),
        (f"{ATTENTION}.layer.value.weight", (narrow, dim)),
        (f"{ATTENTION}.layer.output.weight", (dim, dim)),
        (f"{NETWORK}.norm.weight", (dim,)),
        (f"{NETWORK}.layer.inner.weight", (hidden, dim)),
        (f"{NETWORK}.layer.outer.weight", (dim, hidden)),
        (f"{NETWORK}.layer.gate.weight", (hidden, dim)),
    ):
        for n in range(header.num_layers):
            yield numbered(name, n), shape
    yield "body.norm.weight", (dim,)
    for _ in ("cosines", "sines"):
        yield None, (header.max_length, header.head_dim // 2)
    if not header.tied:
        yield "output_weight", (header.vocabulary, dim)


def by_halves(weight: Tensor, head_dim: int) -> Tensor:
    """Of every head the even rows first, then the odd ones."""
    return weight.view(-1, head_dim // 2, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def read_tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    """A score and the bytes of every token; merges are those that SentencePiece would make."""
    if not path.is_file():
        raise UserError(f"{path} is missing; a llama2.c checkpoint needs its tokenizer beside it, under this name")
    data, place = path.read_bytes(), 4
    pieces: list[Piece] = []
    try:
        while place < len(data):
            score, size = struct.unpack_from("<fi", data, place)
            place += 8
            if size < 0 or place + size > len(data):
                raise ValueError
            pieces.append(piece_of(len(pieces), data[place : place + size].decode(), score))
            place += size
    except (struct.error, ValueError):
        raise UserError(f"{path} is no tokenizer of llama2.c's, or is cut short; copy it again") from None
    if len(pieces) != vocabulary:
        raise UserError(f"{path} has {len(pieces):,} tokens, but the model knows {vocabulary:,}; take the tokenizer that belongs to it")
    found = SentencePieces(path, BPE, pieces, byte_fallback=True, charsmap=b"", dummy_prefix=True, removes_spaces=False)
    inner = tokenizer_of(found)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return Tokenizer(inner)


def piece_of(id: int, text: str, score: float) -> Piece:
    if id in SPECIALS:
        return Piece(SPECIALS[id][0], score, SPECIALS[id][1])
    if id < len(SPECIALS) + NUM_BYTES and text == f"<0x{id - len(SPECIALS):02X}>":
        return Piece(text, score, BYTE)
    return Piece(text.replace(" ", SPACE), score)
