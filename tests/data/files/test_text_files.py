import gzip
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.files import text_files
from clew.data.files.text_files import Piece, TextFiles, TextString, beginning, find_text, measure_text
from clew.text.train import TOKENIZERS

TEXT = "the cat sat on the mat\nthe dog sat on  the log\n\nwhat, no cat?\n"


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 8)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_pieces_end_with_lines_and_join_to_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 50)
    pieces = list(find_text(write(tmp_path / "a.txt", TEXT)))
    assert "".join(pieces) == TEXT
    assert len(pieces) > 1 and all(piece.endswith("\n") for piece in pieces)


def test_a_long_line_is_cut_before_a_space_or_else_anywhere(small_pieces):
    assert list(TextString("one two three")) == ["one two", " three"]
    assert list(TextString("onetwothreefour")) == ["onetwoth", "reefour"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_encoded_separately_equal_the_whole_text_encoded(kind, small_pieces):
    tokenizer = TOKENIZERS[kind](TEXT)
    assert sum((tokenizer.encode(piece) for piece in TextString(TEXT)), []) == tokenizer.encode(TEXT)


def test_a_byte_order_mark_and_carriage_returns_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 2)
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfa\r\nb\r\n")
    assert "".join(find_text(path)) == "a\nb\n" == "".join(TextString("a\r\nb\r\n"))


def test_a_zipped_text_is_read_like_the_text(tmp_path):
    assert "".join(find_text(write(tmp_path / "a.txt.gz", gzip.compress(TEXT.encode(), mtime=0)))) == TEXT


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for name, content in {"b.txt": "B", "a/z.txt": "Z\n", "c.md": "no", ".hidden.txt": "no", "empty.txt": ""}.items():
        write(tmp_path / name, content)
    assert list(find_text(tmp_path).pieces()) == [Piece("Z\n", closes=True), Piece("B")]
    assert "".join(find_text(tmp_path / "c.md")) == "no"
    assert "".join(find_text([tmp_path / "c.md", str(tmp_path / "b.txt")])) == "no\nB"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_the_extent_of_a_text_does_not_depend_on_piece_size(text):
    whole = measure_text(TextString(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "PIECE", 3)
        assert measure_text(TextString(text)) == whole


def test_two_documents_differ_from_one_with_the_same_text(tmp_path):
    apart = find_text([write(tmp_path / "a.txt", "a\n"), write(tmp_path / "b.txt", "b\n")])
    assert measure_text(apart).num_characters == 4
    assert measure_text(apart).digest != measure_text(TextString("a\nb\n")).digest


def test_a_missing_file_is_reported_with_similar_names(tmp_path):
    write(tmp_path / "plays.txt", "a")
    with pytest.raises(UserError) as caught:
        find_text(tmp_path / "play.txt")
    assert str(caught.value) == f"no such file: {tmp_path / 'play.txt'}; near it there is {tmp_path / 'plays.txt'}"


def test_a_missing_file_is_reported_with_the_files_of_its_folder(tmp_path):
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
        UserError,
        match=(
            r"no .txt or .jsonl file with text in this folder or below; name a file, or rename the text file to"
            r" .txt"
        ),
    ):
        find_text(tmp_path)


def test_a_byte_that_is_not_utf8_is_reported_with_its_place(tmp_path):
    path = write(tmp_path / "notes.txt", "ä first\nsecond\n".encode() + b"x\xff\n")
    with pytest.raises(UserError) as caught:
        list(TextFiles((path,)))
    assert (
        str(caught.value) == f"{path}: byte 0xff at offset 17 (line 3) is not UTF-8; "
        "set data.encoding=cp1252|latin-1|utf-16|cp1251|shift_jis|gb18030, "
        f"or convert it, e.g. iconv -f latin1 -t utf-8 {path} > {tmp_path / 'utf8-notes.txt'}"
    )


def test_a_file_that_ends_inside_a_character_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"byte 0xe2 at offset 1 \(line 1\) is not UTF-8"):
        list(TextFiles((write(tmp_path / "a.txt", "a€".encode()[:-1]),)))


def test_a_zero_byte_is_reported_with_a_command_that_removes_it(tmp_path):
    path = write(tmp_path / "a.txt", b"one\ntwo and three\0")
    with pytest.raises(UserError) as caught:
        list(find_text(path))
    command = f"tr -d '\\000' < {path} > {tmp_path / 'utf8-a.txt'}"
    assert str(caught.value) == f"{path}: byte 0x00 at offset 17 (line 2) is not text; remove it, e.g. {command}"


def test_a_command_to_convert_a_file_can_be_pasted(tmp_path):
    with pytest.raises(UserError, match=r"iconv -f latin1 -t utf-8 '.*/my book.txt' > '.*/utf8-my book.txt'$"):
        find_text(write(tmp_path / "my book.txt", b"\xff"))


@pytest.mark.skipif(sys.platform != "linux", reason="a file that nobody can read")
def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.txt").symlink_to("/proc/self/mem")
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(UserError, match=r"a.txt: cannot be read: Input/output error"):
            find_text(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes among files")
def test_a_pipe_is_rejected_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    message = "pipe.txt: neither a file nor a folder; a text is read more than once, so save it to a file first"
    with pytest.raises(UserError, match=message):
        find_text(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match="no .txt or .jsonl file with text in this folder or below"):
        find_text(tmp_path)


def vanish(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def spoil(path):
    path.write_bytes(b"the cat\n\xff")


def become_a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("happen", "sentence"),
    [
        (vanish, "the file no longer exists; restore it and let no other program write there"),
        (become_a_folder, "the file no longer exists; restore it and let no other program write there"),
        (empty, "the text is gone since it was first read; let no other program write to the file"),
        (spoil, "byte 0xff at offset 8 (line 2) is not UTF-8; set"),
    ],
)
def test_a_file_that_changes_after_discovery_is_named(happen, sentence, tmp_path):
    path = write(tmp_path / "a.txt", TEXT)
    source = find_text(path)
    happen(path)
    with pytest.raises(UserError) as caught:
        list(source)
    assert str(caught.value).startswith(f"{path}: {sentence}")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "~nobody-of-that-name/x.txt",
            "no such file: ~nobody-of-that-name/x.txt; no user has that name; if a file name begins with ~, write ./~",
        ),
        ("x" * 9999, f"no such file: {'x' * 60}...{'x' * 60}; File name too long"),
        ("x/" * 999, f"no such file: {'x/' * 30}.../x"),
        ("a\0b", "no such file: a\\x00b; "),
    ],
)
def test_an_impossible_path_is_reported_in_a_sentence(path, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        find_text(path)
    assert str(caught.value).startswith(sentence)
    assert len(str(caught.value)) < 400


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission")
def test_a_link_to_itself_is_not_a_file(tmp_path):
    (tmp_path / "a.txt").symlink_to(tmp_path / "a.txt")
    with pytest.raises(UserError, match=r"no such file: .*a.txt; the folder .* is empty"):
        find_text(tmp_path / "a.txt")
    write(tmp_path / "b.txt", "b")
    assert "".join(find_text(tmp_path)) == "b"


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_a_file_name_that_is_not_utf8_is_read_and_shown_escaped(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    assert "".join(find_text(write(path, TEXT))) == TEXT
    with pytest.raises(UserError, match=r"caf\\udce9.txt: byte 0xff") as caught:
        find_text(write(path, b"\xff"))
    assert str(caught.value).encode()


def test_half_a_character_is_rejected():
    with pytest.raises(UserError, match=r"character 3 of the text \(U\+D800\) is half a character; give it as UTF-8"):
        TextString("ab\ud800")


def test_the_beginning_of_a_text_reads_only_the_pieces_it_needs():
    pieces = iter(["to be, ", "or not", " to be"])
    assert beginning(pieces, 9) == "to be, or" and next(pieces) == " to be"
    assert beginning(["to", " be"], 100) == "to be" and beginning([], 5) == ""
