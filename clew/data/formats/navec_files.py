"""Word vectors in navec's format: product-quantised, in a tar of three files. Only numbers and text are read; nothing
is executed.

    meta.json     {"id": ..., "protocol": 1}
    vocab.bin     gzip: a number n, n counts, and n words in UTF-8 with a newline between
    pq.bin        n, dim, parts and centroids; n x parts bytes; parts x centroids x (dim / parts) 32-bit floats

Numbers are 32-bit, little-endian. Byte (w, p) is the number of the centroid that is part p of word w's vector. The file
has words in alphabetical order; they are returned by decreasing frequency, without the marks `<unk>` and `<pad>`.
"""

import tarfile
import zlib
from pathlib import Path

import numpy as np

from clew.core.errors import UserError, shown
from clew.core.files import open_file
from clew.core.memory import check_memory
from clew.data.files.unpacking import largest_unpacked_size, unpacked_size_error
from clew.data.lines import check_file

MEMBERS = ("meta.json", "vocab.bin", "pq.bin")
MARKS = ("<unk>", "<pad>")
NUMBER, FLOAT = np.dtype("<u4"), np.dtype("<f4")


def is_navec(path: Path | str) -> bool:
    return Path(path).suffix.lower() == ".tar"


def read_navec(path: Path | str, most: int | None = None) -> tuple[list[str], np.ndarray]:
    """Return the `most` most frequent words (by default all), and their vectors (words, dim), float32."""
    path = Path(path).expanduser()
    members = read_members(path)
    words, counts = read_words(path, members["vocab.bin"])
    indexes, codes = read_codes(path, members["pq.bin"])
    if len(words) != len(indexes):
        raise UserError(
            f"{path}: vocab.bin has {len(words):,} words and pq.bin {len(indexes):,} vectors; copy the file again"
        )
    rows = len(words) if most is None else min(most, len(words))
    check_memory(
        rows * codes.shape[0] * codes.shape[2] * FLOAT.itemsize, f"the vectors of {path}", "ask for fewer words"
    )
    order = [index for index in np.argsort(-counts.astype(np.int64), kind="stable") if words[index] not in MARKS][:most]
    parts = [codes[part][indexes[order, part]] for part in range(indexes.shape[1])]
    return [words[index] for index in order], np.concatenate(parts, 1)


def read_members(path: Path) -> dict[str, bytes]:
    check_file(path)
    size = path.stat().st_size
    contents: dict[str, bytes] = {}
    try:
        with open_file(path) as tar, tarfile.open(fileobj=tar, mode="r:") as archive:
            for member in archive:
                # a sparse member could claim any size, which reading would fill with zeros
                is_stored = member.isreg() and not member.issparse() and member.size <= size
                if member.name in MEMBERS and is_stored and (file := archive.extractfile(member)):
                    contents[member.name] = file.read()
    except (tarfile.TarError, OSError, EOFError, MemoryError, OverflowError) as error:
        raise UserError(f"{path}: cannot be read as the tar of navec vectors: {error}; copy it again") from None
    for name in MEMBERS:
        if name not in contents:
            raise UserError(f"{path}: a tar of navec vectors has {', '.join(MEMBERS)}, but this one has no {name}")
    return contents


def read_words(path: Path, content: bytes) -> tuple[list[str], np.ndarray]:
    try:
        unzipper = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        data = unzipper.decompress(content, largest_unpacked_size(len(content)))
        if unzipper.unconsumed_tail:
            raise unpacked_size_error(path)
    except zlib.error as error:
        raise UserError(f"{path}: vocab.bin cannot be unpacked ({error}); copy the file again") from None
    count = int(np.frombuffer(data[:4], NUMBER)[0]) if len(data) >= 4 else 0
    start = 4 + 4 * count
    num_words = data.count(b"\n", start) + 1 if count and len(data) > start else 0
    if not num_words or num_words != count:
        raise UserError(f"{path}: vocab.bin should have {count:,} words, but has {num_words:,}; copy the file again")
    try:
        words = data[start:].decode().split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}: the words in vocab.bin are not UTF-8; copy the file again") from None
    return words, np.frombuffer(data[4:start], NUMBER)


def read_codes(path: Path, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the centroid numbers (words, parts) and the centroids (parts, centroids, width)."""
    header = np.frombuffer(content[:16], NUMBER).tolist() if len(content) >= 16 else []
    count, dim, parts, centroids = header or (0, 0, 0, 0)
    expected = 16 + count * parts + 4 * centroids * dim
    if not (count and parts and centroids) or dim % parts or not 0 < centroids <= 256 or len(content) != expected:
        raise UserError(
            f"{path}: pq.bin begins with {shown(header)}, which does not match its size of {len(content):,} bytes; copy"
            " the file again"
        )
    end = 16 + count * parts
    indexes = np.frombuffer(content[16:end], np.uint8).reshape(count, parts)
    codes = np.frombuffer(content[end:], FLOAT).reshape(parts, centroids, dim // parts)
    if int(indexes.max()) >= centroids or not np.isfinite(codes).all():
        raise UserError(f"{path}: pq.bin has invalid centroid numbers or non-finite values; copy the file again")
    return indexes, codes
