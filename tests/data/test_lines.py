import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.lines import read_lines
from tests.data.written import refusal, write, written


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_do_not_depend_on_how_they_end(tmp_path, end, mark, last):
    path = write(
        tmp_path / "a.txt", mark + end.join(["eins", "", "zwei ä\u2028\x0b", "drei"]).encode() + end.encode() * last
    )
    assert list(read_lines(path)) == ["eins", "", "zwei ä\u2028\x0b", "drei"]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=5),
        min_size=1,
        max_size=5,
    )
)
def test_a_zipped_file_is_read_like_the_file(lines):
    content = "".join(f"{line}\n" for line in lines)
    with written("a.txt", content) as plain, written("b.txt.gz", gzip.compress(content.encode(), mtime=0)) as zipped:
        assert list(read_lines(plain)) == list(read_lines(zipped)) == [lines[0].removeprefix("\ufeff"), *lines[1:]]


def test_lines_are_read_lazily(tmp_path):
    lines = read_lines(write(tmp_path / "a.txt", b"first\n" + b"x" * 100_000 + b"\n\xff"))
    assert next(lines) == "first"


def test_a_line_of_ten_thousand_words_is_read(tmp_path):
    line = " ".join(f"word{i}" for i in range(10_000))
    assert list(read_lines(write(tmp_path / "a.txt", line + "\nend\n"))) == [line, "end"]


def test_a_nul_byte_is_reported_with_its_line(tmp_path):
    path = write(tmp_path / "a.tsv", b"one\ntwo\0\n")
    assert refusal(lambda: read_lines(path)) == (
        f"{path}:2: there is a NUL character, so this is not plain text, or it is damaged; repair it, or give another"
        " file"
    )


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_byte_that_is_not_utf8_is_reported_with_its_line(tmp_path, end):
    path = write(tmp_path / "a.txt", "öne".encode() + end + b"two" + end + b"thr\xe9e" + end)
    assert refusal(lambda: read_lines(path)) == (
        f"{path}: byte 0xe9 at offset {10 + 2 * len(end)} (line 3) is not UTF-8; set "
        "data.encoding=cp1252|latin-1|utf-16|cp1251|shift_jis|gb18030, or convert it, "
        f"e.g. iconv -f latin1 -t utf-8 {path} > {tmp_path / 'utf8-a.txt'}"
    )


@pytest.mark.parametrize(
    ("name", "content"), [("a.txt", b""), ("a.txt", b"\xef\xbb\xbf"), ("a.txt.gz", gzip.compress(b"", mtime=0))]
)
def test_an_empty_file_is_refused(tmp_path, name, content):
    path = write(tmp_path / name, content)
    assert refusal(lambda: read_lines(path)) == f"{path}: the file is empty; give one with text in it"


def test_a_broken_zip_is_refused(tmp_path):
    whole = gzip.compress(b"a line\n" * 1000, mtime=0)
    for name, content in {"cut.gz": whole[:-12], "bad.gz": whole[:20] + b"\0\0\0\0" + whole[24:]}.items():
        path = write(tmp_path / name, content)
        sentence = refusal(lambda path=path: read_lines(path))
        assert sentence.startswith(f"{path}: cannot be unpacked (")
        assert sentence.endswith("); it is damaged, so copy it again")


def test_paths_that_are_not_files_are_rejected(tmp_path):
    write(tmp_path / "train.tsv", "a")
    assert refusal(lambda: read_lines(tmp_path / "trian.tsv")) == (
        f"no such file: {tmp_path / 'trian.tsv'}; near it there is {tmp_path / 'train.tsv'}"
    )
    assert refusal(lambda: read_lines(tmp_path)) == (
        f"{tmp_path}: this is a folder; name a file in it: the folder {tmp_path} has train.tsv"
    )
    assert refusal(lambda: read_lines(tmp_path / ("x" * 300))).endswith(": cannot be read: File name too long")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_rejected_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refusal(lambda: read_lines(tmp_path / "pipe")) == (
        f"{tmp_path / 'pipe'}: this is a pipe or a device; save its output to a file, and give that file"
    )


def bomb(path: Path, line: bytes, size: int) -> Path:
    """A small gzip file that unpacks to a large one."""
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        for _ in range(size // len(line)):
            file.write(line)
    return path


@pytest.mark.parametrize("line", [b" 0" * 2**19, b"the same line again\n" * 2**15], ids=["one line", "many lines"])
def test_a_small_gzip_file_that_unpacks_to_a_large_one_is_rejected(tmp_path: Path, line: bytes) -> None:
    path = bomb(tmp_path / "bomb.txt.gz", line, 2**27)
    assert path.stat().st_size < 2**19
    with pytest.raises(
        UserError,
        match=r"bomb.txt.gz: unpacks to more than 100 times its size, which no text does; .* unpack it first"
        " and give that file",
    ):
        for _ in read_lines(path):
            pass


@pytest.mark.slow
def test_a_gzip_file_of_a_text_is_read_completely_at_any_size(tmp_path: Path) -> None:
    """Above the size that is always allowed, so that the ratio is checked."""
    lines = [f"{number * number % 9973} {number}" for number in range(2**20)]
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(("\n".join(lines * 6)).encode(), 1))
    assert path.stat().st_size * 100 > 2**26
    assert sum(1 for _ in read_lines(path)) == 6 * 2**20


def test_the_length_of_a_line_can_be_limited(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("ab\nabcdef\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "long.txt", 7)) == ["ab", "abcdef"]
    with pytest.raises(
        UserError, match=r"long.txt:2: this line has more than 5 characters; check that this is the right file"
    ):
        list(read_lines(tmp_path / "long.txt", 5))
