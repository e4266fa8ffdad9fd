"""Checkpoints of llama2.c: seven integers, then all weights in sequence, with a tokenizer.bin in the same folder.

    dim, hidden_dim, num_layers, num_heads, num_kv_heads, vocabulary (negative: the output layer has its own
    table), max_length

In version 0 the float32 weights follow directly. Versions 1 and 2 begin with 256 bytes: a magic number, the version,
the seven integers, a byte that is 1 if the output layer shares the embedding table, and in version 2 the group size;
norms come first. In version 2 a matrix is stored as one byte per weight, then one float32 per group: weight = byte *
scale of its group. Norms are float32.

llama2.c rotates neighbouring features, but clew rotates features half a head apart, so the rows of queries and keys are
reordered.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import processors
from torch import Tensor

from clew.core.errors import UserError
from clew.core.files import open_file, read_bytes
from clew.interop.huggingface.folders import inside
from clew.interop.imported import Imported
from clew.interop.sentencepiece_files import BPE, BYTE, CONTROL, SPACE, UNKNOWN, Piece, SentencePieces, tokenizer_of
from clew.interop.weight_maps import numbered
from clew.models.body import MOST_LAYERS
from clew.text.tokenizer import Tokenizer

HEADER, LONG_HEADER = 7 * 4, 256
VERSIONED = 0x616B3432
"""The magic number of versions 1 and later."""
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
    version: int = 0
    group: int = 1

    @property
    def start(self) -> int:
        """The offset of the first weight, in bytes."""
        return LONG_HEADER if self.version else HEADER

    def size(self, shape: tuple[int, ...]) -> int:
        """Return the size of a tensor in bytes; a matrix of version 2 has one byte per value and one scale per
        group."""
        count = int(np.prod(shape))
        return count + 4 * (count // self.group) if self.is_quantised(shape) else 4 * count

    def is_quantised(self, shape: tuple[int, ...]) -> bool:
        return self.version == 2 and len(shape) == 2

    @property
    def head_dim(self) -> int:
        return self.dim // self.num_heads


def is_llama2c(path: Path) -> bool:
    return path.is_file() and path.suffix == ".bin"


def read_llama2c(path: Path) -> Imported:
    header = read_header(path)
    tokenizer = read_tokenizer(inside(path.parent, TOKENIZER, path), header.vocabulary)
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
        data = np.memmap(path, dtype=np.uint8, mode="r", offset=header.start)
        place = 0
        for name, shape in layout(header):
            size = header.size(shape)
            if name is not None:
                tensor = torch.from_numpy(read_weight(data[place : place + size], shape, header)).view(shape)
                tensors[name].copy_(
                    by_halves(tensor, header.head_dim) if name.endswith(("query.weight", "key.weight")) else tensor
                )
            place += size
        return []

    return Imported(
        "llama2.c",
        settings,
        {"tokenizer": tokenizer},
        fill,
        num_values=path.stat().st_size // (1 if header.version == 2 else 4),
    )


def read_weight(data: np.ndarray, shape: tuple[int, ...], header: Header) -> np.ndarray:
    if not header.is_quantised(shape):
        return np.frombuffer(data.tobytes(), "<f4").copy()
    count = int(np.prod(shape))
    numbers, scales = data[:count].view(np.int8), np.frombuffer(data[count:].tobytes(), "<f4")
    weight: np.ndarray = numbers.reshape(-1, header.group).astype(np.float32) * scales[:, None]
    return weight


def read_header(path: Path) -> Header:
    with open_file(path) as file:
        start = file.read(LONG_HEADER)
    if len(start) < HEADER:
        raise UserError(
            f"{path} has {len(start)} bytes, but a llama2.c checkpoint has a header of {HEADER}; copy it again"
        )
    mark, version = struct.unpack("<2i", start[:8])
    if mark == VERSIONED and version not in (1, 2):
        raise UserError(
            f"{path} has version {version} of the llama2.c format; clew reads 0, 1 and 2 (export.py --version 0)"
        )
    version = version if mark == VERSIONED else 0
    group = 1
    if version:
        if len(start) < LONG_HEADER:
            raise UserError(
                f"{path} has {len(start)} bytes, but version {version} has a header of {LONG_HEADER}; it is cut short:"
                " copy it again"
            )
        numbers = struct.unpack("<7i", start[8 : 8 + HEADER])
        tied = start[8 + HEADER] != 0
        if version == 2:
            (group,) = struct.unpack("<i", start[9 + HEADER : 13 + HEADER])
    else:
        numbers = struct.unpack("<7i", start[:HEADER])
        tied = numbers[5] > 0
    dim, hidden, layers, heads, groups, vocabulary, longest = (
        *numbers[:5],
        numbers[5] if version else abs(numbers[5]),
        numbers[6],
    )
    header = Header(dim, hidden, layers, heads, groups, vocabulary, longest, tied, version, group)
    sizes = (
        f"dim={dim}, hidden_dim={hidden}, layers={layers}, heads={heads}, kv_heads={groups}, vocabulary={vocabulary},"
        f" length={longest}"
    )
    if (
        min(header[:7]) < 1
        or max(header[:7]) > 2**24
        or layers > MOST_LAYERS
        or dim % heads
        or heads % groups
        or (dim // heads) % 2
    ):
        raise UserError(
            f"{path} is not a llama2.c checkpoint: its header says {sizes}; convert a torch pickle with llama2.c's"
            " export.py"
        )
    if group < 1 or any(int(np.prod(shape)) % group for _, shape in layout(header) if header.is_quantised(shape)):
        raise UserError(
            f"{path}: the group size ({group}) does not divide the weights ({sizes}); write it again with export.py"
        )
    expected, size = header.start + sum(header.size(shape) for _, shape in layout(header)), path.stat().st_size
    if size != expected:
        remedy = (
            "it is cut short: copy it again"
            if size < expected
            else f"it is not a llama2.c checkpoint of version {version}: write it again with llama2.c's export.py"
        )
        raise UserError(f"{path} has {size:,} bytes, but its header ({sizes}) requires {expected:,}; {remedy}")
    return header


def layout(header: Header) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """Return the names and shapes of the tensors in the order of the file. A name of None marks a table that clew
    computes itself."""
    dim, hidden, narrow = header.dim, header.hidden_dim, header.num_kv_heads * header.head_dim
    table = "body.embedding.tokens.weight", (header.vocabulary, dim)
    norms = [(f"{part}.norm.weight", (dim,)) for part in (ATTENTION, NETWORK)]
    attention = [
        (f"{ATTENTION}.layer.query.weight", (dim, dim)),
        (f"{ATTENTION}.layer.key.weight", (narrow, dim)),
        (f"{ATTENTION}.layer.value.weight", (narrow, dim)),
        (f"{ATTENTION}.layer.output.weight", (dim, dim)),
    ]
    network = [
        (f"{NETWORK}.layer.inner.weight", (hidden, dim)),
        (f"{NETWORK}.layer.outer.weight", (dim, hidden)),
        (f"{NETWORK}.layer.gate.weight", (hidden, dim)),
    ]
    last = "body.norm.weight", (dim,)
    if header.version:
        yield from of_each_layer(header, norms)
        yield last
        yield table
        yield from of_each_layer(header, [*attention, *network])
    else:
        yield table
        yield from of_each_layer(header, [norms[0], *attention, norms[1], *network])
        yield last
        for _ in ("cosines", "sines"):
            yield None, (header.max_length, header.head_dim // 2)
    if not header.tied:
        yield "output_weight", (header.vocabulary, dim)


def of_each_layer(
    header: Header, weights: Sequence[tuple[str, tuple[int, ...]]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each weight for all layers, before the next weight."""
    for name, shape in weights:
        for n in range(header.num_layers):
            yield numbered(name, n), shape


def by_halves(weight: Tensor, head_dim: int) -> Tensor:
    """Reorder the rows of each head: the even ones first, then the odd ones."""
    return weight.view(-1, head_dim // 2, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def read_tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    """Read the score and the bytes of every token; the merges follow from the scores, as in SentencePiece."""
    if not path.is_file():
        raise UserError(f"{path} is missing; put the checkpoint's tokenizer there, under this name")
    data, place = read_bytes(path), 4
    pieces: list[Piece] = []
    try:
        while place < len(data) and len(pieces) <= vocabulary:
            score, size = struct.unpack_from("<fi", data, place)
            place += 8
            if size < 0 or place + size > len(data):
                raise ValueError
            pieces.append(piece_of(len(pieces), data[place : place + size].decode(), score))
            place += size
    except (struct.error, ValueError):
        raise UserError(f"{path} is not a llama2.c tokenizer, or is cut short; copy it again") from None
    if len(pieces) != vocabulary:
        more = " or more" if len(pieces) > vocabulary else ""
        raise UserError(
            f"{path} has {len(pieces):,}{more} tokens, but the model has {vocabulary:,}; use the tokenizer that belongs"
            " to it"
        )
    contents = SentencePieces(
        path, BPE, pieces, byte_fallback=True, charsmap=b"", dummy_prefix=True, removes_spaces=False
    )
    inner = tokenizer_of(contents)
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return Tokenizer(inner)


def piece_of(id: int, text: str, score: float) -> Piece:
    if id in SPECIALS:
        return Piece(SPECIALS[id][0], score, SPECIALS[id][1])
    if id < len(SPECIALS) + NUM_BYTES and text == f"<0x{id - len(SPECIALS):02X}>":
        return Piece(text, score, BYTE)
    return Piece(text.replace(" ", SPACE), score)
