"""Streams of texts: the order of documents, and how a stream is identified."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.streams import text_streams
from clew.data.streams.text_streams import Place, TextStream, Window, stream_of
from tests.data.written import refusal, write


@dataclass(frozen=True)
class Listed:
    texts: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.texts)

    def documents(self) -> Any:
        return iter(self.texts)

    def characters(self) -> float:
        return float(sum(map(len, self.texts)))


def stream(num_blocks: int = 5, num_documents: int = 7, shuffle_window: int = 4) -> TextStream:
    blocks = [
        Listed(tuple(f"{block}.{number} " for number in range(num_documents + block % 2)))
        for block in range(num_blocks)
    ]
    return TextStream(blocks, "stream", {}, "a stream", shuffle_window)


START = Place()


def windows(of: TextStream, seed: int = 1, epoch: int = 0, place: Place = START, least: int = 1) -> list[Window]:
    return list(of.windows(seed, epoch, place, least))


def contents(of: Sequence[Window]) -> list[list[str]]:
    return [window.documents for window in of]


def test_an_epoch_has_every_document_once_in_an_order_set_by_seed_and_epoch() -> None:
    whole = sorted(stream())
    orders = {(seed, epoch): contents(windows(stream(), seed, epoch)) for seed in (1, 2) for epoch in (0, 1, 2)}
    for order in orders.values():
        assert sorted(text for window in order for text in window) == sorted(text.rstrip("\n") for text in whole)
    assert len({str(order) for order in orders.values()}) == 6
    assert orders == {(seed, epoch): contents(windows(stream(), seed, epoch)) for seed, epoch in orders}


def test_documents_are_shuffled_only_within_their_window() -> None:
    whole = stream(num_blocks=1, num_documents=12, shuffle_window=4)
    contents_read = contents(windows(whole))
    in_order = [text for block in whole.blocks for text in block.documents()]
    assert [sorted(window) for window in contents_read] == [sorted(in_order[start : start + 4]) for start in (0, 4, 8)]
    assert [text for window in contents_read for text in window] != in_order


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 12), st.integers(1, 60), st.integers(0, 3))
def test_reading_from_any_window_gives_the_same_following_windows(
    blocks: int, documents: int, most: int, least: int, epoch: int
) -> None:
    whole = stream(blocks, documents, most)
    expected = windows(whole, epoch=epoch, least=least)
    for number in range(1, len(expected)):
        place = Place(number, 0, *expected[number - 1].next)
        assert (expected[number].block, expected[number].document) == place[2:]
        assert contents(windows(whole, epoch=epoch, place=place, least=least)) == contents(expected[number:])
    assert windows(whole, epoch=epoch, place=Place(len(expected), 0, *expected[-1].next), least=least) == []


def test_a_window_is_limited_by_documents_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(window) for window in contents(windows(stream(2, 10, 5)))] == [5, 5, 5, 5, 1]
    assert [len(window) for window in contents(windows(stream(1, 8, 1), least=12))] == [3, 5]  # the last has the rest
    monkeypatch.setattr(text_streams, "MOST_CHARACTERS", 8)
    assert [len(window) for window in contents(windows(stream(1, 6, 5)))] == [2, 2, 2]


def test_the_first_documents_are_held_out_and_not_trained_on() -> None:
    whole = stream(4, 10)
    total = sum(map(len, whole.first_documents(10**6)))
    parts = whole.hold_out({"valid": 0.3, "test": 0.1})
    texts = {
        name: list(part.first_documents(10**6)) if name == "train" else list(part.documents)
        for name, part in parts.items()
    }
    assert [*texts["valid"], *texts["test"], *texts["train"]] == list(whole.first_documents(10**6))
    assert sum(map(len, texts["valid"])) == pytest.approx(0.3 * total, abs=4)
    assert sum(map(len, texts["test"])) == pytest.approx(0.1 * total, abs=4)
    assert sorted(text for window in windows(parts["train"]) for text in window.documents) == sorted(texts["train"])
    assert list(stream(4, 10).hold_out({})) == ["train"]


def test_a_stream_held_out_completely_is_rejected() -> None:
    sentence = refusal(lambda: stream(1, 1).hold_out({"valid": 0.1}))
    assert (
        sentence
        == "stream: all documents would be held out, with none left for training; use more text, or give data.valid as"
        " files"
    )


def folder_of(folder: Path) -> Path:
    for name in ("a", "b"):
        write(folder / f"{name}.txt", f"{name} in a maze\n" * 1000)
    return folder


def test_a_stream_is_identified_by_names_sizes_and_ends_of_its_files(tmp_path: Path) -> None:
    first = stream_of(folder_of(tmp_path / "first"), "text", 10)
    moved = stream_of(folder_of(tmp_path / "moved"), "text", 10)
    assert first.facts == moved.facts and first.facts["files"] == 2
    (tmp_path / "moved" / "b.txt").rename(tmp_path / "moved" / "c.txt")
    write(tmp_path / "first" / "b.txt", "b in a maze\n" * 999 + "B in a maze\n")
    for folder in ("first", "moved"):
        assert stream_of(tmp_path / folder, "text", 10).facts["digest"] != first.facts["digest"]


def test_folders_without_text_are_rejected(tmp_path: Path) -> None:
    sentence = (
        f"{tmp_path}: no .txt or .jsonl file with text in this folder or below; name a file, or rename the text"
        " file to .txt"
    )
    assert refusal(lambda: stream_of(tmp_path, "text", 10)) == sentence
    write(tmp_path / "a.txt", "")
    assert refusal(lambda: stream_of(tmp_path, "text", 10)) == sentence
    assert refusal(lambda: stream_of(tmp_path / "none", "text", 10)).startswith("no such file: ")
