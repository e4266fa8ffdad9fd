"""Tar files in navec's format, written by hand."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest

from clew.baselines.word_vectors import load_word_vectors
from clew.core.errors import UserError
from clew.data.formats.navec_files import read_navec

WORDS, COUNTS = ["аист", "в", "дом", "<unk>", "<pad>"], [3, 90, 20, 0, 0]
INDEXES = np.array([[0, 1], [1, 1], [2, 0], [0, 0], [0, 0]], dtype=np.uint8)
CODES = np.arange(12, dtype="<f4").reshape(2, 3, 2)  # parts, centroids, width


def members(words=WORDS, counts=COUNTS, header=(5, 4, 2, 3), codes=CODES, indexes=INDEXES):
    vocab = struct.pack(f"<{len(counts) + 1}I", len(counts), *counts) + "\n".join(words).encode()
    return {
        "meta.json": b'{"id": "tiny", "protocol": 1}',
        "vocab.bin": gzip.compress(vocab, mtime=0),
        "pq.bin": struct.pack("<4I", *header) + indexes.tobytes() + codes.tobytes(),
    }


def write(path, parts):
    with tarfile.open(path, "w") as archive:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_a_vector_joins_its_parts_centroids_and_frequent_words_come_first(tmp_path):
    words, vectors = read_navec(write(tmp_path / "tiny.tar", members()))
    assert words == ["в", "дом", "аист"]
    assert vectors.tolist() == [[2, 3, 8, 9], [4, 5, 6, 7], [0, 1, 8, 9]]
    assert load_word_vectors(tmp_path / "tiny.tar", 2).words.words == ("в", "дом")


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"pq.bin": b""}, "which does not match its size of 0 bytes; copy the file again"),
        ({"pq.bin": members()["pq.bin"][:-1]}, "does not match its size"),
        ({"pq.bin": members(header=(5, 4, 3, 3))["pq.bin"]}, "does not match its size"),
        (
            {"pq.bin": members(codes=np.full((2, 3, 2), np.nan, "<f4"))["pq.bin"]},
            "invalid centroid numbers or non-finite values; copy the file again",
        ),
        ({"pq.bin": members(indexes=INDEXES + np.uint8(2))["pq.bin"]}, "invalid centroid numbers or non-finite"),
        ({"vocab.bin": b"no gzip"}, "cannot be unpacked"),
        ({"vocab.bin": gzip.compress(b"\xff\xff\xff\xff", mtime=0)}, "copy the file again"),
        ({"vocab.bin": members(words=WORDS[:3])["vocab.bin"]}, "should have 5 words, but has 3"),
        (
            {"vocab.bin": members(words=WORDS[1:], counts=COUNTS[1:])["vocab.bin"]},
            "has 4 words and pq.bin 5 vectors; copy the file again",
        ),
    ],
)
def test_a_damaged_file_is_reported_in_a_sentence(tmp_path, change, sentence):
    with pytest.raises(UserError, match=sentence):
        read_navec(write(tmp_path / "bad.tar", {**members(), **change}))


def test_a_tar_without_navec_vectors_is_rejected(tmp_path):
    with pytest.raises(UserError, match=r"has no pq\.bin"):
        read_navec(write(tmp_path / "some.tar", {name: part for name, part in members().items() if name != "pq.bin"}))
    (tmp_path / "text.tar").write_text("no tar at all", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read as the tar"):
        read_navec(tmp_path / "text.tar")
    with pytest.raises(UserError, match="no such file"):
        read_navec(tmp_path / "none.tar")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no gzip", r"bad.tar: vocab.bin cannot be unpacked \(.*\); copy the file again"),
        (
            gzip.compress(struct.pack("<2I", 1, 2) + b"\xff\xfe", mtime=0),
            "bad.tar: the words in vocab.bin are not UTF-8; copy the file again",
        ),
    ],
)
def test_unreadable_words_are_rejected(tmp_path, content, sentence):
    with pytest.raises(UserError, match=sentence):
        read_navec(write(tmp_path / "bad.tar", {**members(), "vocab.bin": content}))


def test_words_that_unzip_to_many_times_their_size_are_rejected(tmp_path):
    write(tmp_path / "bomb.tar", {**members(), "vocab.bin": gzip.compress(bytes(2**27), mtime=0)})
    with pytest.raises(UserError, match=r"bomb.tar: unpacks to more than 100 times its size"):
        read_navec(tmp_path / "bomb.tar")


def test_too_large_vectors_are_rejected_before_they_are_allocated(tmp_path):
    """2^16 words of one byte each, all with the same vector of 2^24 numbers."""
    count, dim = 2**16, 2**24
    words = [str(number) for number in range(count)]
    indexes, codes = np.zeros((count, 1), np.uint8), np.zeros((1, 1, dim), "<f4")
    write(tmp_path / "wide.tar", members(words, [1] * count, (count, dim, 1, 1), codes, indexes))
    with pytest.raises(UserError, match=r"the vectors of .*wide.tar would need 4,398.0 GB, and this machine has"):
        read_navec(tmp_path / "wide.tar")


def test_a_sparse_member_is_not_expanded(tmp_path):
    parts = members()
    write(tmp_path / "whole.tar", parts)
    content = bytearray((tmp_path / "whole.tar").read_bytes())
    place = content.index(b"pq.bin")
    content[place + 156 : place + 157] = b"S"
    content[place + 483 : place + 495] = b"17777777777\0"
    content[place + 148 : place + 156] = b" " * 8
    content[place + 148 : place + 156] = b"%06o\0 " % sum(content[place : place + 512])
    (tmp_path / "sparse.tar").write_bytes(content)
    with pytest.raises(UserError, match=r"this one has no pq.bin|cannot be read as the tar"):
        read_navec(tmp_path / "sparse.tar")
