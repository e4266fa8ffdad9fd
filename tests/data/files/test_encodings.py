"""Texts that are not UTF-8: the detected encoding, the reason for it, and when no encoding is guessed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.descriptions import describe
from clew.data.example_splits import PARTS
from clew.data.files.given_files import given_file
from clew.data.files.text_files import TextFiles
from clew.data.kinds.labelled import LABELLED, LabelledData
from clew.data.kinds.section import TableData
from clew.data.kinds.text import TextData, find_texts
from clew.data.lines import PIECE, find_encoding, read_lines
from clew.data.readers import read_pairs
from tests.data.written import refusal, write, written

SENTENCES = {
    "latin-1": "the crème brûlée was good\nthe café was closed\n",
    "cp1252": "it\u2019s a film \u2014 and not a good one\nplain words\n",
    "cp1251": "Мама мыла раму, а папа читал газету.\nПотом они пошли домой.\n",
    "koi8-r": "Мама мыла раму, а папа читал газету.\nПотом они пошли домой.\n",
    "cp1253": "η γάτα κάθεται στο χαλί και κοιμάται\nτο σπίτι είναι μικρό\n",
    "shift_jis": "これは日本語の文章です。\n猫が好きです。\n",
    "euc_jp": "これは日本語の文章です。\n猫が好きです。\n",
    "euc_kr": "나는 학교에 갑니다. 오늘은 날씨가 좋습니다.\n안녕하세요\n",
    "utf-16": "ä first line\nthe second\n",
    "utf-16-le": "the first line\nthe second\n",
    "utf-16-be": "the first line\nthe second\n",
    "utf-32": "the first line\nthe second\n",
}


@pytest.mark.parametrize("encoding", SENTENCES)
def test_a_text_is_read_in_its_own_encoding(encoding: str, tmp_path: Path) -> None:
    text = SENTENCES[encoding]
    path = write(tmp_path / "a.txt", text.encode(encoding))
    assert "\n".join(read_lines(path)) + "\n" == text
    assert "".join(TextFiles((path,))) == text
    guess = find_encoding(path)
    assert guess is not None and guess.encoding == encoding and guess.reason


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=40), st.integers(0, 3))
def test_utf8_stays_utf8_wherever_a_piece_ends(text: str, shift: int) -> None:
    line = "x" * (PIECE - 4 + shift) + text
    with written("a.txt", line) as path:
        assert list(read_lines(path)) == [line]
        assert find_encoding(path) is None


@pytest.mark.parametrize("place", range(PIECE - 3, PIECE + 3))
def test_a_guess_does_not_depend_on_where_a_piece_ends(place: int, tmp_path: Path) -> None:
    text = "x" * place + " café and crème"
    assert list(read_lines(write(tmp_path / "a.txt", text.encode("latin-1")))) == [text]


def test_a_given_encoding_is_used(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\nсыр,ja\nрис,ja\nдом,nein\n".encode("cp1251"))
    data = LabelledData(train=str(path), encoding="cp1251")
    examples = list(LABELLED.read_files([data.with_encoding(str(path))], data, None))  # type: ignore[arg-type]
    assert [example.text for example in examples] == ["сыр", "рис", "дом"]
    file = given_file(write(tmp_path / "b.txt", "Ärger".encode("cp437")), "cp437")
    assert list(read_lines(file)) == ["Ärger"]
    assert describe(file).encoding == ("cp437", "it was given")


def test_the_encoding_applies_to_each_file_of_parallel_text_and_folders(tmp_path: Path) -> None:
    for language in ("en", "de"):
        write(tmp_path / f"train.{language}", "Ä\nÖ\n".encode("cp437"))
    pairs = read_pairs(given_file(tmp_path / "train", "cp437"), source="en", target="de")
    assert [(pair.source, pair.target) for pair in pairs] == [("Ä", "Ä"), ("Ö", "Ö")]
    write(tmp_path / "folder" / "a.txt", "Ä one\n".encode("cp437") * 50)
    parts = find_texts(TextData(train=str(tmp_path / "folder"), encoding="cp437"))
    assert set("".join("".join(parts[part]) for part in PARTS if part in parts)) == set("Ä one\n")


def test_a_text_read_in_another_encoding_has_another_stamp(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "Ärger".encode("cp437"))
    first, second = (TextFiles((given_file(path, encoding),)).stamp() for encoding in ("cp437", "cp850"))
    assert first is not None and second is not None and first.text != second.text


def test_an_unknown_encoding_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "a")
    remedy = "use utf-8, cp1252, latin-1, utf-16, cp1251, shift_jis, gb18030 or any other that Python supports"
    assert (
        refusal(lambda: read_lines(given_file(path, "klingon")))
        == f"data.encoding: unknown encoding 'klingon'; {remedy}"
    )
    assert (
        refusal(lambda: read_lines(given_file(path, "base64")))
        == f"data.encoding: 'base64' does not encode text; {remedy}"
    )


def test_a_wrong_encoding_is_rejected(tmp_path: Path) -> None:
    path = given_file(write(tmp_path / "a.txt", b"caf\xe9\n"), "utf-8")
    assert refusal(lambda: read_lines(path)) == (
        f"{path}: this is not utf-8, as data.encoding says; leave that out to have the encoding guessed, "
        "or try utf-8, cp1252, latin-1, utf-16, cp1251, shift_jis, gb18030"
    )


@pytest.mark.parametrize(
    "content", [b"a\xff\n", "漢字表格".encode("big5"), b"\x80\x81\x01\x02 noise"], ids=["erased", "big5", "noise"]
)
def test_no_encoding_is_guessed_when_none_fits(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not UTF-8; set data.encoding=cp1252"):
        list(read_lines(write(tmp_path / "a.txt", content)))


def test_a_guess_is_reported_with_its_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\ncafé,a\nthé,a\nbar,b\n".encode("latin-1"))
    sentence = "few bytes are not ASCII, typical of accented letters in a western language"
    assert TableData(train=str(path)).encodings() == [
        f"{path}: read as latin-1, as {sentence}; data.encoding=NAME overrides this"
    ]
    assert f"encoding: latin-1, as {sentence}; data.encoding=NAME overrides this" in repr(describe(path))
    assert TableData(train=str(path), encoding="latin-1").encodings() == []
