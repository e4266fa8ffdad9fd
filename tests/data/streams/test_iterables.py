"""Texts from Python objects, as blocks of a stream."""

from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import IterableDataset

from clew.data.streams import iterables
from clew.data.streams.iterables import GIVEN, Items, Pass, blocks_of_iterable, register_iterable
from tests.data.written import refusal


@pytest.fixture(autouse=True)
def no_iterables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterables, "GIVEN", {})


def documents(data: Any) -> list[str]:
    return [
        text for block in blocks_of_iterable(register_iterable(data, "train"), "text") for text in block.documents()
    ]


class Rereadable:
    """An iterable that can be read more than once."""

    def __iter__(self) -> Iterator[dict[str, str]]:
        return ({"text": f"row {number}", "id": str(number)} for number in range(5))


class Numbered:
    """A sequence with numbered items, like a Dataset of torch."""

    def __len__(self) -> int:
        return 2500

    def __getitem__(self, number: int) -> str:
        return f"item {number}"


def pages() -> Iterator[str]:
    yield from ("the first page", "  ", "the second page")


def test_functions_iterables_and_sequences_are_read() -> None:
    assert documents(pages) == ["the first page", "the second page"]
    assert documents(Rereadable()) == [f"row {number}" for number in range(5)]
    assert documents(["a list", "of texts"]) == ["a list", "of texts"]
    assert documents(Numbered()) == [f"item {number}" for number in range(2500)]


def test_datasets_of_other_libraries_are_read() -> None:
    class Endless(IterableDataset[str]):
        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[str]:
            return iter(["a", "b", "c"])

    assert documents(Endless()) == ["a", "b", "c"]
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"text": ["a", "b"], "n": [1, 2]})
    assert documents(table) == documents(table.to_iterable_dataset()) == ["a", "b"]


def test_numbered_items_are_split_into_blocks_and_an_iterable_is_one_block() -> None:
    item_blocks = blocks_of_iterable(register_iterable(Numbered(), "train"), "text")
    assert [(type(block), block.size) for block in item_blocks] == [(Items, 1000), (Items, 1000), (Items, 500)]
    (block,) = blocks_of_iterable(register_iterable(pages, "train"), "text")
    assert isinstance(block, Pass) and block.characters() == len("the first page" + "the second page")


def test_a_long_iterable_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "again and again "

    monkeypatch.setattr(iterables, "MOST_COUNTED", 1000)
    assert blocks_of_iterable(register_iterable(endless, "train"), "text")[0].characters() == float("inf")


def test_a_table_in_memory_is_read_row_by_row() -> None:
    pandas = pytest.importorskip("pandas")
    assert documents(pandas.DataFrame({"text": ["a", "b"], "n": [1, 2]})) == ["a", "b"]


def test_a_column_of_pandas_is_read_in_its_order_whatever_its_index() -> None:
    column = pytest.importorskip("pandas").Series(["a", "b", "c"])
    assert documents(column[[2, 0]]) == ["c", "a"]
    assert documents(column.set_axis(["x", "y", "z"])) == ["a", "b", "c"]


def test_data_that_cannot_be_read_twice_are_rejected_with_a_remedy() -> None:
    assert (
        refusal(lambda: register_iterable(pages(), "train"))
        == "data= is a generator, which can be read only once, but a stream is read again in every epoch and after"
        " every resume; pass the function that makes it (data=pages instead of data=pages()), or omit data.stream to"
        " store the texts on disk"
    )
    once = pages()
    assert refusal(lambda: documents(lambda: once)).startswith(
        "data= is a function that returns the same iterator at every call, but a"
        " stream is read again in every epoch and after every resume; return a new iterator from each call, as a"
        " function with `yield` does"
    )
    sentence = "data= is a function that returned 3, but it must return an iterator of texts; let it yield them"
    assert refusal(lambda: documents(lambda: 3)) == sentence
    assert refusal(lambda: register_iterable(7, "train")).startswith(
        "data= is 7, but a stream must be a function that returns an iterator of texts, or an"
        " object that can be iterated repeatedly; pass one of these, or omit data.stream"
    )


def test_an_item_that_is_not_text_is_reported_with_its_number() -> None:
    assert (
        refusal(lambda: documents(["a", 5]))
        == "data= must be a stream of texts, or of rows with a field 'text', but example 2 is 5"
    )
    assert refusal(lambda: documents(lambda: [{"txt": "a"}])).startswith(
        'example 1 of data=: the document is read from the field "text"'
    )


def test_half_a_character_is_reported_with_its_example() -> None:
    sentence = "character 6 of the text in example 2 of data= (U+D800) is half a character; give it as UTF-8"
    assert refusal(lambda: documents(lambda: iter(["a", "half \ud800"]))) == sentence


def test_a_missing_iterable_is_reported_with_a_remedy() -> None:
    GIVEN.clear()
    assert (
        refusal(lambda: blocks_of_iterable("iterable:train", "text"))
        == "data.train=iterable:train stands for an iterable passed from Python, which this process does not have; "
        "call clew.train with the same data= again (with resume=True to continue), or evaluate the run on a file"
    )
