import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.caching.encoded_documents import encode_documents
from clew.data.documents import (
    LONG,
    Documents,
    Line,
    corpus_documents,
    documents_at,
    hold_out,
    measure_documents,
    plain_lines,
    split_sentences,
)
from clew.data.files.measures import cached_extent
from clew.data.kinds.documents import DocumentsData, find_documents
from clew.data.notes import Notes
from clew.text.train import train_wordpiece


def documents_of(source: Documents) -> list[list[str]]:
    documents: list[list[str]] = []
    for text, opens in source.lines():
        if opens:
            documents.append([])
        documents[-1].append(text)
    return documents


def test_blank_lines_separate_documents_and_each_line_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\n One. Two. \r\nThree.\n \n\nFour.\n\n", encoding="utf-8")
    assert documents_of(documents_at(path, Notes())) == [["One. Two.", "Three."], ["Four."]]


def test_a_long_line_is_cut_between_sentences() -> None:
    line = "It cost 3.50 pounds at St. james' shop. “Who?” he asked... then left. Ja! 終わり。はい。 " + "word " * LONG
    assert split_sentences(line)[:4] == [
        "It cost 3.50 pounds at St. james' shop.",
        "“Who?” he asked... then left.",
        "Ja!",
        "終わり。",
    ]
    assert "".join(split_sentences(line)).replace(" ", "") == line.replace(" ", "")
    assert split_sentences("One. Two.") == ["One. Two."] and split_sentences("") == []


def test_a_folder_has_text_and_json_lines_zipped_or_not(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.txt.gz").write_bytes(gzip.compress(b"zipped\n"))
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"text": "One.\n\nTwo."}) + "\n\n" + json.dumps({"text": "Three."}) + "\n"
    )
    (tmp_path / "empty.txt").touch()
    (tmp_path / "picture.png").write_bytes(b"\0")
    notes = Notes()
    documents = documents_at(tmp_path, notes)
    assert documents_of(documents) == [["One.", "Two."], ["Three."], ["zipped"]]
    assert documents_of(documents) == documents_of(documents)
    assert notes.report() == [
        f"skipped 1 x empty line (first: {tmp_path / 'a.jsonl'}:2)"
    ]  # once, however often it is read


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"txt": "One."},
            (
                "this object has no field 'text'; did you mean 'txt'? there are: txt; name the right one with"
                " data.text=NAME; fix it"
            ),
        ),
        (
            {"text": ["One."]},
            ("expected a string in the field 'text', found a list; fix it, or skip such records with data.faults=skip"),
        ),
    ],
)
def test_an_object_without_text_is_reported(tmp_path: Path, content: dict, expected: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(content) + "\n" + '{"text": "Two.", "body": {"en": "Three."}}\n')
    with pytest.raises(UserError, match="a.jsonl:1") as error:
        documents_of(documents_at(path, Notes()))
    assert expected in str(error.value)
    notes = Notes(faults="skip")
    assert documents_of(documents_at(path, notes)) == [["Two."]] and notes.skipped["no text"] == 1
    assert documents_of(documents_at(path, Notes(faults="skip"), "body.en")) == [["Three."]]


def test_missing_and_unsuitable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file: .*nothing; the folder"):
        documents_at(tmp_path / "nothing", Notes())
    with pytest.raises(
        UserError,
        match="data.format=csv: documents are plain text"
        r" \(lines\) or JSON lines \(jsonl\); convert them, or leave it out",
    ):
        documents_at(tmp_path, Notes(), format="csv")
    (tmp_path / "objects").write_text('{"text": "One."}\n')
    assert documents_of(documents_at(tmp_path / "objects", Notes(), format="jsonl")) == [["One."]]
    with pytest.raises(UserError, match=r"no \.txt or \.jsonl file with text in this folder"):
        documents_at(tmp_path, Notes())


def test_corpora_can_be_read_as_documents() -> None:
    speeches = documents_of(corpus_documents("tinyshakespeare")["train"])
    assert speeches[1] == ["All:", "Speak, speak."] and len(speeches) == 7222
    pairs = corpus_documents("tatoeba-sample", "de")
    assert [len(documents_of(part)) for part in pairs.values()] == [1, 1, 1]
    assert documents_of(pairs["test"])[0][0] != documents_of(corpus_documents("tatoeba-sample")["test"])[0][0]
    assert len(documents_of(corpus_documents("ewt-sample")["valid"])[0]) > 50


def test_parts_are_held_out_from_the_end_between_sentences() -> None:
    lines = [
        Line(text, opens) for text, opens in (("aaaa", True), ("bb", False), ("cc", True), ("d", False), ("e", False))
    ]
    whole = Documents("it", lambda: iter(lines))
    parts = hold_out(whole, {"valid": 0.2, "test": 0.1})
    assert {name: documents_of(part) for name, part in parts.items()} == {
        "train": [["aaaa", "bb"]],
        "valid": [["cc", "d"]],
        "test": [["e"]],
    }
    assert hold_out(whole, {"valid": 0.0, "test": 0.0})["train"] is whole
    with pytest.raises(UserError, match="must be below 1, or nothing is left to train on"):
        hold_out(whole, {"valid": 0.5, "test": 0.5})
    with pytest.raises(UserError, match="it: the valid part of its 10 characters has no sentence"):
        hold_out(whole, {"valid": 0.05, "test": 0.25})


def test_validation_files_require_a_training_file() -> None:
    with pytest.raises(UserError, match="data.valid and data.test need data.train; give that too, or leave them out"):
        find_documents(DocumentsData(corpus="ewt-sample", valid="valid.txt"), Notes())


def test_documents_are_encoded_once_with_their_boundaries(tmp_path: Path) -> None:
    text = [
        "the cat sat",
        "the dog ran far",
        "",
        "\u200b",
        "a cat",
        "",
        "\u200b",
    ]  # a character that the tokenizer drops
    source = Documents("it", lambda: plain_lines(text))
    tokenizer = train_wordpiece(text)
    done = []
    encoded = encode_documents(source, tokenizer, tmp_path, lambda *numbers: done.append(numbers))
    sentences = [tokenizer.encode(line) for line in text if line.strip("\u200b")]
    assert encoded.tokens.tolist() == [token for ids in sentences for token in ids]
    assert np.diff(encoded.sentences).tolist() == [len(ids) for ids in sentences] and encoded.documents.tolist() == [
        0,
        2,
        3,
    ]
    assert done == [(measure_documents(source).num_characters,) * 2]
    cached = encode_documents(source, tokenizer, tmp_path, lambda *numbers: done.append(numbers))
    assert len(done) == 1 and cached.tokens.tolist() == encoded.tokens.tolist()
    starts = encoded.sentences.tolist()
    next(tmp_path.glob("*.sentences")).write_bytes(b"12345678")
    assert encode_documents(source, tokenizer, tmp_path).sentences.tolist() == starts
    joined = encode_documents(Documents("it", lambda: plain_lines(["", *text[:2], *text[4:]])), tokenizer, tmp_path)
    assert joined.documents.tolist() == [0, 3]  # the same sentences in one document are other documents
    with pytest.raises(UserError, match="it has no tokens, only 1 characters; use documents with words"):
        encode_documents(Documents("it", lambda: plain_lines(["\u200b"])), tokenizer, tmp_path)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.data.files.measures.LARGE", 1)


def dated_file(path: Path, text: str, changed: int = 10**18) -> Path:
    """Write a file with a modification time long ago, in nanoseconds."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(changed, changed))
    return path


@pytest.mark.usefixtures("all_large")
def test_a_large_file_is_measured_again_when_its_size_or_time_changes(tmp_path: Path) -> None:
    documents, cache = documents_at(dated_file(tmp_path / "a.txt", "one two\n"), Notes()), tmp_path / "cache"
    first = cached_extent(documents, cache, measure_documents)
    dated_file(tmp_path / "a.txt", "two one\n")
    assert (
        cached_extent(documents, cache, measure_documents) == first != measure_documents(documents)
    )  # same size and time: the change cannot be seen
    for text, changed in (("two one\n", 10**18 + 1), ("two one one\n", 10**18)):
        dated_file(tmp_path / "a.txt", text, changed)
        assert cached_extent(documents, cache, measure_documents) == measure_documents(documents) != first
    parts = hold_out(documents_at(dated_file(tmp_path / "b.txt", "a\nb\nc\nd\n"), Notes()), {"valid": 0.5}, cache)
    assert len({cached_extent(part, cache, measure_documents) for part in (*parts.values(), documents)}) == 3
    assert [cached_extent(part, cache, measure_documents) for part in parts.values()] == [
        measure_documents(part) for part in parts.values()
    ]


@pytest.mark.usefixtures("all_large")
def test_skipped_records_are_reported_each_time(tmp_path: Path) -> None:
    path = dated_file(tmp_path / "a.jsonl", '{"text": "One."}\n{"body": "Two."}\n')
    for _ in range(2):
        notes = Notes(faults="skip")
        cached_extent(documents_at(path, notes), tmp_path / "cache", measure_documents)
        assert notes.skipped["no text"] == 1
    with pytest.raises(UserError, match="a.jsonl:2: this object has no field 'text'"):
        cached_extent(documents_at(path, Notes()), tmp_path / "cache", measure_documents)
    assert (
        cached_extent(documents_at(path, Notes(), format="lines"), tmp_path / "cache", measure_documents).num_characters
        == 32
    )


@pytest.mark.usefixtures("all_large")
def test_changed_documents_are_reported_and_then_encoded(tmp_path: Path) -> None:
    documents, cache = documents_at(dated_file(tmp_path / "a.txt", "one two\n"), Notes()), tmp_path / "cache"
    cached_extent(documents, cache, measure_documents)
    dated_file(tmp_path / "a.txt", "two one\n")
    tokenizer = train_wordpiece(["one two"])
    with pytest.raises(UserError, match="it changed while it was read; make sure that no other program writes to it"):
        encode_documents(documents, tokenizer, cache)
    assert encode_documents(documents, tokenizer, cache).tokens.tolist() == tokenizer.encode("two one")


def test_a_large_encoding_is_hashed_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.data.caching.encoded_documents.HASHED", 0)
    documents, tokenizer = Documents("it", lambda: plain_lines(["one two"])), train_wordpiece(["one two"])
    expected = encode_documents(documents, tokenizer, tmp_path).tokens.tolist()
    (path,) = tmp_path.glob("*.tokens")
    path.write_bytes(path.read_bytes()[::-1])
    assert encode_documents(documents, tokenizer, tmp_path).tokens.tolist() == expected
