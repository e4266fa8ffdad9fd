"""Word vectors as navec keeps them: product-quantised, in a tar of three files. Only numbers and text are read; nothing
is executed.

    meta.json     {"id": ..., "protocol": 1}
    vocab.bin     gzip: a number n, n counts, and n words with a newline between, UTF-8; numbers are 32-bit, little-endian
    pq.bin        n, dim, parts and centroids; n x parts bytes; parts x centroids x (dim / parts) 32-bit floats

Part p of word w is one of the centroids of that part, the one that byte (w, p) numbers. Words stand in the order of the
alphabet; they are given the most frequent first, without the marks `<unk>` and `<pad>`.
"""

import tarfile
import zlib
from pathlib import Path

import numpy as np

from clew.core.errors import UserError, shown
from clew.core.files import open_file
from clew.core.memory import check_fits
from clew.data.files.unpacking import most_unpacked, too_packed
from clew.data.lines import check_file

MEMBERS = ("meta.json", "vocab.bin", "pq.bin")
MARKS = ("<unk>", "<pad>")
NUMBER, FLOAT = np.dtype("<u4"), np.dtype("<f4")


def is_navec(path: Path | str) -> bool:
    return Path(path).suffix.lower() == ".tar"


def read_navec(path: Path | str, most: int | None = None) -> tuple[list[str], np.ndarray]:
    """Words, the most frequent first, or so many of them, and their vectors (words, dim), float32."""
    path = Path(path).expanduser()
    members = read_members(path)
    words, counts = read_words(path, members["vocab.bin"])
    indexes, codes = read_codes(path, members["pq.bin"])
    if len(words) != len(indexes):
        raise UserError(
            f"{path}: vocab.bin has {len(words):,} words and pq.bin {len(indexes):,} vectors; copy the file again"
        )
    rows = len(words) if most is None else min(most, len(words))
    check_fits(rows * codes.shape[0] * codes.shape[2] * FLOAT.itemsize, f"the vectors of {path}", "ask for fewer words")
    order = [place for place in np.argsort(-counts.astype(np.int64), kind="stable") if words[place] not in MARKS][:most]
    parts = [codes[part][indexes[order, part]] for part in range(indexes.shape[1])]
    return [words[place] for place in order], np.concatenate(parts, 1)


def read_members(path: Path) -> dict[str, bytes]:
    check_file(path)
    size = path.stat().st_size
    found: dict[str, bytes] = {}
    try:
        with open_file(path) as whole, tarfile.open(fileobj=whole, mode="r:") as archive:
            for member in archive:
                in_file = (
                    member.isreg() and not member.issparse() and member.size <= size
                )  # what a sparse one has not, it would make
                if member.name in MEMBERS and in_file and (file := archive.extractfile(member)):
                    found[member.name] = file.read()
    except (tarfile.TarError, OSError, EOFError, MemoryError, OverflowError) as error:
        raise UserError(f"{path}: cannot be read as the tar of navec vectors: {error}; copy it again") from None
    for name in MEMBERS:
        if name not in found:
            raise UserError(f"{path}: a tar of navec vectors has {', '.join(MEMBERS)}, and this one has no {name}")
    return found


def read_words(path: Path, content: bytes) -> tuple[list[str], np.ndarray]:
    try:
        unzipper = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        data = unzipper.decompress(content, most_unpacked(len(content)))
        if unzipper.unconsumed_tail:
            raise too_packed(path)
    except zlib.error as error:
        raise UserError(f"{path}: vocab.bin cannot be unzipped ({error}); copy the file again") from None
    count = int(np.frombuffer(data[:4], NUMBER)[0]) if len(data) >= 4 else 0
    start = 4 + 4 * count
    there = data.count(b"\n", start) + 1 if count and len(data) > start else 0
    if not there or there != count:
        raise UserError(f"{path}: vocab.bin tells of {count:,} words and has {there:,}; copy the file again")
    try:
        words = data[start:].decode().split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}: the words of vocab.bin are not UTF-8; copy the file again") from None
    return words, np.frombuffer(data[4:start], NUMBER)


def read_codes(path: Path, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The bytes (words, parts) and the centroids (parts, centroids, width)."""
    header = np.frombuffer(content[:16], NUMBER).tolist() if len(content) >= 16 else []
    count, dim, parts, centroids = header or (0, 0, 0, 0)
    expected = 16 + count * parts + 4 * centroids * dim
    if not (count and parts and centroids) or dim % parts or not 0 < centroids <= 256 or len(content) != expected:
        raise UserError(
            f"{path}: pq.bin begins with {shown(header)}, which its {len(content):,} bytes do not fit; copy the file"
            " again"
        )
    end = 16 + count * parts
    indexes = np.frombuffer(content[16:end], np.uint8).reshape(count, parts)
    codes = np.frombuffer(content[end:], FLOAT).reshape(parts, centroids, dim // parts)
    if int(indexes.max()) >= centroids or not np.isfinite(codes).all():
        raise UserError(f"{path}: pq.bin has numbers that are no vectors'; copy the file again")
    return indexes, codes
