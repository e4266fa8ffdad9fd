import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data import text_files
from clew.data.text_files import Piece, TextFiles, TextString, find_text, measure
from clew.text.train import TOKENIZERS

TEXT = "the cat sat on the mat\nthe dog sat on  the log\n\nwhat, no cat?\n"


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 8)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_pieces_end_with_lines_and_make_up_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 50)
    pieces = list(find_text(write(tmp_path / "a.txt", TEXT)))
    assert "".join(pieces) == TEXT
    assert len(pieces) > 1 and all(piece.endswith("\n") for piece in pieces)


def test_a_long_line_is_cut_before_a_space_and_failing_that_anywhere(small_pieces):
    assert list(TextString("one two three")) == ["one two", " three"]
    assert list(TextString("onetwothreefour")) == ["onetwoth", "reefour"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_encoded_apart_are_the_text_encoded_whole(kind, small_pieces):
    tokenizer = TOKENIZERS[kind](TEXT)
    assert sum((tokenizer.encode(piece) for piece in TextString(TEXT)), []) == tokenizer.encode(TEXT)


def test_a_byte_order_mark_and_carriage_returns_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 2)
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfa\r\nb\r\n")
    assert "".join(find_text(path)) == "a\nb\n" == "".join(TextString("a\r\nb\r\n"))


def test_a_zipped_text_is_the_text(tmp_path):
    assert "".join(find_text(write(tmp_path / "a.txt.gz", gzip.compress(TEXT.encode())))) == TEXT


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for name, content in {"b.txt": "B", "a/z.txt": "Z\n", "c.md": "no", ".hidden.txt": "no", "empty.txt": ""}.items():
        write(tmp_path / name, content)
    assert list(find_text(tmp_path).pieces()) == [Piece("Z\n", closes=True), Piece("B")]
    assert "".join(find_text(tmp_path / "c.md")) == "no"
    assert "".join(find_text([tmp_path / "c.md", str(tmp_path / "b.txt")])) == "no\nB"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_a_measure_does_not_depend_on_the_pieces(text):
    whole = measure(TextString(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "PIECE", 3)
        assert measure(TextString(text)) == whole


def test_two_documents_are_not_one(tmp_path):
    apart = find_text([write(tmp_path / "a.txt", "a\n"), write(tmp_path / "b.txt", "b\n")])
    assert measure(apart).num_characters == 4
    assert measure(apart).digest != measure(TextString("a\nb\n")).digest


def test_a_missing_file_is_told_with_what_is_near(tmp_path):
    write(tmp_path / "plays.txt", "a")
    with pytest.raises(UserError) as caught:
        find_text(tmp_path / "play.txt")
    assert str(caught.value) == f"no such file: {tmp_path / 'play.txt'}; near it there is {tmp_path / 'plays.txt'}"


def test_a_missing_file_is_told_with_what_its_folder_has(tmp_path):
    with pytest.raises(UserError, match=r"no such file: .*x.txt; the folder .* is empty"):
        find_text(tmp_path / "x.txt")
    for name in "abcdef":
        write(tmp_path / name, "a")
    with pytest.raises(UserError, match=r"no such file: .*x.txt; the folder .* has a, b, c, d, e and more"):
        find_text(tmp_path / "x.txt")
    with pytest.raises(UserError, match=r"no such file: .*x.txt; nor is there a folder .*gone"):
        find_text(tmp_path / "gone" / "x.txt")


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(content, tmp_path):
    with pytest.raises(UserError, match=r"a.txt: the file is empty; give one with text in it"):
        find_text(write(tmp_path / "a.txt", content))


def test_a_folder_without_text_is_refused(tmp_path):
    write(tmp_path / "a.md", "a")
    write(tmp_path / "a.txt", "")
    with pytest.raises(
        UserError, match=r"no .txt file with text in this folder or below; name a file, or rename what holds the text to .txt"
    ):
        find_text(tmp_path)


def test_a_byte_that_is_not_utf8_is_told_with_its_place(tmp_path):
    path = write(tmp_path / "notes.txt", "ä first\nsecond\n".encode() + b"x\xff\n")
    with pytest.raises(UserError) as caught:
        list(TextFiles((path,)))
    assert str(caught.value) == (
        f"{path}: byte 0xff at offset 17 (line 3) is not UTF-8; convert it, e.g. iconv -f latin1 -t utf-8 notes.txt > utf8-notes.txt"
    )


def test_a_file_that_ends_inside_a_character_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"byte 0xe2 at offset 1 \(line 1\) is not UTF-8"):
        list(TextFiles((write(tmp_path / "a.txt", "a€".encode()[:-1]),)))
