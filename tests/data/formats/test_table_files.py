"""Parquet, Arrow and Feather files written by pyarrow, and folders saved by `datasets`."""

import json
import random
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.data.descriptions import describe
from clew.data.files.text_files import find_text
from clew.data.formats import detect_format, table_files
from clew.data.formats.table_files import read_table, table_columns
from clew.data.readers import read_labelled, read_pairs, read_sentences
from clew.data.uses import guess_use
from tests.data.written import refusal, write

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

ROWS = [
    {"text": f"film {number} ä", "label": ["bad", "good"][number % 2], "stars": number, "seen": date(2020, 1, 2)}
    for number in range(50)
]
TABLE = pa.Table.from_pylist(ROWS)


def write_stream(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_file(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS: dict[str, Callable[[Any, Path], Any]] = {
    "parquet": lambda table, path: parquet.write_table(table, path, row_group_size=7),
    "parquet gzip": lambda table, path: parquet.write_table(table, path, compression="gzip"),
    "parquet zstd": lambda table, path: parquet.write_table(table, path, compression="zstd"),
    "parquet dictionary": lambda table, path: parquet.write_table(
        table.set_column(1, "label", table["label"].dictionary_encode()), path, row_group_size=20
    ),
    "feather": lambda table, path: feather.write_feather(table, str(path)),
    "feather plain": lambda table, path: feather.write_feather(table, str(path), compression="uncompressed"),
    "arrow": write_file,
    "arrow stream": write_stream,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a"])
def test_a_table_is_read_back_whatever_its_name(writer: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[writer](TABLE, path)
    assert detect_format(path) == "table"
    records = list(read_table(path))
    assert [dict(record.values) for record in records] == [{**row, "seen": "2020-01-02"} for row in ROWS]
    assert [record.place for record in records] == [f"{path}:{number}" for number in range(1, 51)]
    examples = list(read_labelled(path))
    assert [(example.text, example.label) for example in examples] == [(row["text"], row["label"]) for row in ROWS]


@pytest.mark.parametrize("writer", WRITERS)
def test_only_the_requested_columns_are_read(writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, columns_read = tmp_path / "a", []
    WRITERS[writer](TABLE, path)
    whole = table_files.batches

    def recorded(*args: Any) -> Any:
        for batch in whole(*args):
            columns_read.append(batch.schema.names)
            yield batch

    monkeypatch.setattr(table_files, "batches", recorded)
    assert len(list(read_labelled(path, text="text", label="stars"))) == 50
    assert {tuple(names) for names in columns_read} == {("text", "stars")}


@pytest.mark.parametrize("writer", ["parquet", "arrow", "arrow stream"])
def test_rows_are_read_lazily(writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sizes = tmp_path / "a", []
    WRITERS[writer](TABLE, path)
    whole = table_files.batches
    monkeypatch.setattr(
        table_files, "batches", lambda *args: (sizes.append(batch.num_rows) or batch for batch in whole(*args))
    )
    next(read_table(path))
    assert sum(sizes) <= 50 and len(sizes) == 1


def test_a_large_row_group_is_not_read_whole(tmp_path: Path) -> None:
    texts = [random.Random(number).randbytes(1000).hex() for number in range(10_000)]
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False)
    del texts
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for _ in read_table(tmp_path / "a.parquet"):
        count += 1
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 10_000
    assert most < (tmp_path / "a.parquet").stat().st_size / 2


def test_nested_fields_and_lists_are_columns(tmp_path: Path) -> None:
    rows = [
        {"translation": {"en": f"cat {n}", "de": f"Katze {n}"}, "words": ["a", "b"], "tags": ["X", "Y"], "raw": b"\0"}
        for n in range(3)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert table_columns(tmp_path / "a.parquet") == ["translation.en", "translation.de", "words", "tags"]
    pairs = read_pairs(tmp_path / "a.parquet", source="translation.de", target="translation.en")
    assert [(pair.source, pair.target) for pair in pairs] == [(f"Katze {n}", f"cat {n}") for n in range(3)]
    sentences = list(read_sentences(tmp_path / "a.parquet"))
    assert [(sentence.words, sentence.tags) for sentence in sentences] == [(("a", "b"), ("X", "Y"))] * 3


def classes_table() -> Any:
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
        "tags": {"feature": {"names": ["O", "B"], "_type": "ClassLabel"}, "_type": "List"},
    }
    table = pa.table({"text": ["a", "b", "c"], "label": [0, 1, -1], "tags": [[0, 1], [1], []]})
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def test_class_numbers_are_replaced_by_class_names(tmp_path: Path) -> None:
    parquet.write_table(classes_table(), tmp_path / "a.parquet")
    assert [dict(record.values) for record in read_table(tmp_path / "a.parquet")] == [
        {"text": "a", "label": "neg", "tags": ["O", "B"]},
        {"text": "b", "label": "pos", "tags": ["B"]},
        {"text": "c", "label": None, "tags": []},
    ]


def save_dataset(folder: Path, table: Any) -> Path:
    """Save a table in two shards, like `datasets`."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05}-of-00002.arrow" for number in range(2)]
    for name, part in zip(names, (table.slice(0, 1), table.slice(1)), strict=True):
        write_stream(part, folder / name)
    write(folder / "state.json", json.dumps({"_data_files": [{"filename": name} for name in names], "_split": "train"}))
    write(folder / "dataset_info.json", "{}")
    return folder


def test_a_folder_saved_by_datasets_is_read_in_its_stated_order(tmp_path: Path) -> None:
    folder = save_dataset(tmp_path / "saved", classes_table().slice(0, 2))
    write_stream(classes_table(), folder / "cache-123.arrow")
    assert [(example.text, example.label, example.id) for example in read_labelled(folder)] == [
        ("a", "neg", f"{folder / 'data-00000-of-00002.arrow'}:1"),
        ("b", "pos", f"{folder / 'data-00001-of-00002.arrow'}:1"),
    ]
    assert "".join(find_text(folder)) == "a\nb"


def test_a_saved_dataset_of_several_parts_is_rejected(tmp_path: Path) -> None:
    for part in ("train", "test"):
        save_dataset(tmp_path / part, classes_table())
    write(tmp_path / "dataset_dict.json", '{"splits": ["train", "test"]}')
    sentence = (
        f"{tmp_path}: this folder has the parts test, train of a dataset; give one, e.g."
        f" data.train={tmp_path / 'train'}"
    )
    for reader in (read_labelled, find_text):
        assert refusal(lambda reader=reader: reader(tmp_path)) == sentence  # type: ignore[misc]


def test_a_folder_of_parquet_files_is_one_table_and_one_text(tmp_path: Path) -> None:
    for number in range(3):
        parquet.write_table(TABLE.slice(number * 10, 10), tmp_path / f"part-{number}.parquet", row_group_size=3)
    assert [example.text for example in read_labelled(tmp_path)] == [row["text"] for row in ROWS[:30]]
    assert "".join(find_text(tmp_path)) == "\n".join(row["text"] for row in ROWS[:30])
    description = describe(tmp_path)
    use = guess_use(description)
    assert description.num_records == 30 and use is not None
    assert (use.recipe, use.settings) == ("classify", {"data.text": "text", "data.label": "label"})


def test_a_folder_without_tables_is_rejected(tmp_path: Path) -> None:
    message = f"{tmp_path}: this folder has no tables; give one with .parquet or .arrow files"
    assert refusal(lambda: table_columns(tmp_path)) == message


def test_files_written_by_pandas_are_read_without_the_index(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", None, "c"], "label": pandas.Categorical(["x", "y", "x"])}, index=[3, 5, 9])
    for kind in ("object", "str"):
        frame.astype({"text": kind}).to_parquet(tmp_path / "a.parquet")
        assert [dict(record.values) for record in read_table(tmp_path / "a.parquet")] == [
            {"text": "a", "label": "x"},
            {"text": None, "label": "y"},
            {"text": "c", "label": "x"},
        ]


def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(TABLE, path)
    assert (
        refusal(lambda: read_labelled(path, text="txt"))
        == f"{path}: no column 'txt' for data.text; did you mean 'text'? there are: text, label, stars, seen"
    )
    assert refusal(lambda: find_text(path, "txt")).startswith(
        f"{path}: no column 'txt' for data.text; did you mean 'text'?"
    )


@pytest.mark.parametrize("writer", WRITERS)
def test_a_damaged_table_is_refused(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    WRITERS[writer](TABLE, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    sentence = refusal(lambda: read_labelled(path))
    assert re.match(rf"{re.escape(str(path))}: this table cannot be read( after row \d+)? \(", sentence)
    assert sentence.endswith("); it is damaged, so copy it again")


def test_a_table_without_rows_is_rejected(tmp_path: Path) -> None:
    parquet.write_table(TABLE.slice(0, 0), tmp_path / "a.parquet")
    assert (
        refusal(lambda: read_labelled(tmp_path / "a.parquet"))
        == f"{tmp_path / 'a.parquet'}: there is no record in it; give a file with records in it"
    )


def test_a_small_file_that_claims_to_be_large_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["x" * 10_000] * 2000}), path, compression="zstd", use_dictionary=False)
    monkeypatch.setattr("clew.data.files.unpacking.SMALL", 2**16)
    with pytest.raises(
        UserError,
        match="a row group unpacks to more than 100 times the size of the file, which no table of texts does"
        "; give another file",
    ):
        list(read_table(path))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    path = tmp_path / "a.parquet"
    parquet.write_table(TABLE, path)
    monkeypatch.setattr(table_files, "import_module", missing)
    assert (
        refusal(lambda: read_labelled(path))
        == "Parquet, Arrow and Feather files are read with pyarrow, which is not installed; run `pip install"
        " 'clew[tables]'`, or give a CSV"
    )
