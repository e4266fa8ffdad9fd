"""Blocks of a stream, which are read independently."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.streams import blocks
from clew.data.streams.blocks import ByteRange, Rest, RowGroups, WholeFile, blocks_of
from tests.data.written import refusal, write, written

TEXT = "".join(f"line {number} of a märchen\n" for number in range(40))


def texts(path: Path, field: str = "text") -> list[list[str]]:
    return [list(block.documents()) for block in blocks_of(path, field)]


@given(st.text(alphabet="ab ä€\n\r", max_size=300), st.integers(1, 40), st.integers(2, 50))
def test_blocks_of_a_text_join_to_the_whole_text(text: str, size: int, ahead: int) -> None:
    with pytest.MonkeyPatch.context() as patch, written("a.txt", text) as path:
        patch.setattr(blocks, "BLOCK", size)
        patch.setattr(blocks, "AHEAD", min(ahead, size))
        joined = "".join(part for each in texts(path) for part in each)
    assert "".join(joined.split()) == "".join(text.split())


def test_plain_text_is_cut_at_the_ends_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    texts_read = texts(write(tmp_path / "a.txt", TEXT))
    assert len(texts_read) > 5 and all(part.endswith("\n") for each in texts_read for part in each)
    assert "".join(part for each in texts_read for part in each) == TEXT


def test_every_line_of_json_is_in_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 50)
    content = "".join(json.dumps({"text": f"document {number} " + "x" * number}) + "\n" for number in range(30))
    texts_read = texts(write(tmp_path / "a.jsonl", content))
    assert len(texts_read) > 10
    assert [part for each in texts_read for part in each] == [
        f"document {number} " + "x" * number for number in range(30)
    ]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.txt", b"\xef\xbb\xbfthe maze\n")) == [["the maze\n"]]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt.gz", gzip.compress(TEXT.encode())), ("a.txt", TEXT.encode("utf-16")), ("a.txt", TEXT.encode("latin-1"))],
    ids=["gzip", "utf-16", "latin-1"],
)
def test_a_file_that_cannot_be_split_is_one_block(name: str, content: bytes, tmp_path: Path) -> None:
    (block,) = blocks_of(write(tmp_path / name, content), "text")
    assert isinstance(block, WholeFile)
    assert "".join(block.documents()) == TEXT


def test_a_parquet_file_is_cut_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"text": f"row {number}", "id": number, "deep": {"text": f"deep {number}"}} for number in range(100)]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=10)
    assert [len(each) for each in texts(tmp_path / "a.parquet")] == [100]  # small groups are combined
    monkeypatch.setattr(blocks, "BLOCK", 1)
    groups = blocks_of(tmp_path / "a.parquet", "text")
    assert all(isinstance(block, RowGroups) for block in groups) and len(groups) == 10
    assert list(groups[3].documents()) == [f"row {number}" for number in range(30, 40)]
    assert list(Rest(groups[3], 8).documents()) == ["row 38", "row 39"]
    assert list(blocks_of(tmp_path / "a.parquet", "deep.text")[9].documents())[-1] == "deep 99"


def test_the_length_of_a_block_is_estimated_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr(blocks, "SAMPLE", 10)
    parquet.write_table(pa.table({"text": ["x" * 50] * 1000}), tmp_path / "a.parquet")
    (block,) = blocks_of(tmp_path / "a.parquet", "text")
    assert block.characters() == 50_000


def test_a_line_that_is_not_json_is_reported_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 60)
    lines = [json.dumps({"text": f"document {number}"}) for number in range(20)]
    for bad, sentence in (
        ('{"text": "docu', "this is not JSON: "),
        ("[1]", "expected an object ({...}); correct the line"),
        ('{"txt": "a"}', 'the document is read from the field "text", which is missing; the fields are: txt'),
    ):
        path = write(tmp_path / "a.jsonl", "\n".join([*lines[:12], bad, *lines[13:]]))
        assert refusal(lambda path=path: texts(path)).startswith(f"{path}:13: {sentence}")


def test_a_byte_that_is_not_utf8_is_reported_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "PIECE", 64)
    path = write(tmp_path / "a.txt", TEXT.encode() + b"caf\xe9\n" + TEXT.encode())
    assert isinstance(blocks_of(path, "text")[0], ByteRange)
    assert refusal(lambda: texts(path)).startswith(
        f"{path}: byte 0xe9 at offset {len(TEXT.encode()) + 3} (line 41) is not UTF-8; "
    )


def test_a_table_damaged_in_the_middle_is_reported_with_file_and_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr(blocks, "BLOCK", 1)
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"{number} is a number" * 20 for number in range(3000)]})
    parquet.write_table(table, path, row_group_size=1000, use_dictionary=False, compression="zstd")
    content = bytearray(path.read_bytes())
    second = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    start = second.data_page_offset
    content[start : start + 200] = b"\xff" * 200
    path.write_bytes(content)
    groups = blocks_of(path, "text")
    assert len(list(groups[0].documents())) == 1000
    sentence = refusal(lambda: list(groups[1].documents()))
    assert sentence.startswith(f"{path}: this table cannot be read after row 1,000 (") and sentence.endswith(
        "it is damaged, so copy it again"
    )


def test_a_file_that_changes_or_disappears_is_rejected_when_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", TEXT)
    (block,) = blocks_of(path, "text")
    assert list(block.documents())
    path.write_text(TEXT + "more\n")
    remedy = "restore it, make sure that no other program writes to it, and continue with resume=True"
    assert refusal(lambda: list(block.documents())) == f"{path}: it changed after training began; {remedy}"
    path.unlink()
    assert (
        refusal(lambda: list(block.documents()))
        == f"{path}: it can no longer be read (No such file or directory); {remedy}"
    )
