"""Files written by other libraries: each is read correctly, or rejected with a conversion command that works."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.data.readers import read_labelled

TEXTS = [f"der Käfer, die {n}. Frau; sagt ja" for n in range(12)]
LABELS = ["gut", "schlecht"] * 6
COLUMNS = {"text": TEXTS, "label": LABELS}
Write = Callable[[Any, Path], Any]

PANDAS: dict[str, Write] = {
    **{
        f"csv {sep!r}": lambda frame, path, sep=sep: frame.to_csv(path, sep=sep, index=False)
        for sep in (",", ";", "\t", "|")
    },
    **{
        f"csv {encoding}": lambda frame, path, encoding=encoding: frame.to_csv(path, encoding=encoding, index=False)
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252")
    },
    **{
        f"csv {packed}": lambda frame, path, packed=packed: frame.to_csv(path, compression=packed, index=False)
        for packed in ("gzip", "bz2", "xz", "zip")
    },
    "json lines": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "json lines gzip": lambda frame, path: frame.to_json(path, orient="records", lines=True, compression="gzip"),
    "json records": lambda frame, path: frame.to_json(path, orient="records"),
    "json records indented": lambda frame, path: frame.to_json(path, orient="records", indent=2),
    **{
        f"parquet {packed}": lambda frame, path, packed=packed: frame.to_parquet(path, compression=packed)
        for packed in (None, "snappy", "gzip", "zstd", "lz4", "brotli")
    },
    "parquet index": lambda frame, path: frame.set_index(frame.index + 5).to_parquet(path),
    "parquet objects": lambda frame, path: frame.astype(object).to_parquet(path),
    "parquet categories": lambda frame, path: frame.astype({"label": "category"}).to_parquet(path),
    "feather": lambda frame, path: frame.to_feather(path),
    "feather plain": lambda frame, path: frame.to_feather(path, compression="uncompressed"),
    "excel": lambda frame, path: frame.to_excel(path, index=False, engine="openpyxl"),
    "excel sheet": lambda frame, path: frame.to_excel(path, index=False, sheet_name="Daten", engine="openpyxl"),
    **{
        f"pickle {protocol}": lambda frame, path, protocol=protocol: frame.to_pickle(path, protocol=protocol)
        for protocol in (2, 3, 4, 5)
    },
    "orc": lambda frame, path: frame.to_orc(path),
}
POLARS: dict[str, Write] = {
    **{
        f"csv {sep!r}": lambda frame, path, sep=sep: frame.write_csv(path, separator=sep)
        for sep in (",", ";", "\t", "|")
    },
    **{
        f"parquet {packed}": lambda frame, path, packed=packed: frame.write_parquet(path, compression=packed)
        for packed in ("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli")
    },
    **{
        f"ipc {packed}": lambda frame, path, packed=packed: frame.write_ipc(path, compression=packed)
        for packed in ("uncompressed", "lz4", "zstd")
    },
    "stream": lambda frame, path: frame.write_ipc_stream(path),
    "json": lambda frame, path: frame.write_json(path),
    "ndjson": lambda frame, path: frame.write_ndjson(path),
}
DATASETS: dict[str, Write] = {
    "saved": lambda data, path: data.save_to_disk(path),
    "saved in shards": lambda data, path: data.save_to_disk(path, num_shards=3),
    "saved classes": lambda data, path: data.class_encode_column("label").save_to_disk(path),
    "saved backwards": lambda data, path: data.select(range(11, -1, -1)).save_to_disk(path),
    "parquet": lambda data, path: data.to_parquet(path),
    "parquet classes": lambda data, path: data.class_encode_column("label").to_parquet(path),
    "csv": lambda data, path: data.to_csv(path),
    "json": lambda data, path: data.to_json(path),
    "json array": lambda data, path: data.to_json(path, lines=False),
}


def examples(path: Path) -> list[tuple[str, str]]:
    return sorted((example.text, example.label) for example in read_labelled(path))


def run_command(sentence: str) -> Path:
    """Run the command at the end of a sentence; its last word is the file that it writes."""
    words = shlex.split(sentence.partition("convert it: ")[2])
    assert words[0] == "python"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, *words[1:]], check=True, env=environment)
    return Path(words[-1])


def check(path: Path) -> None:
    try:
        examples_read = examples(path)
    except UserError as error:
        examples_read = examples(run_command(str(error)))
    assert examples_read == sorted(zip(TEXTS, LABELS, strict=True))


@pytest.mark.parametrize("kind", PANDAS)
def test_files_of_pandas_are_read_or_converted(kind: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / ("data.xlsx" if kind.startswith("excel") else "data.x")
    PANDAS[kind](pandas.DataFrame(COLUMNS), path)
    check(path)


@pytest.mark.parametrize("kind", POLARS)
def test_files_of_polars_are_read(kind: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "data.x"
    POLARS[kind](polars.DataFrame(COLUMNS), path)
    assert examples(path) == sorted(zip(TEXTS, LABELS, strict=True))


@pytest.mark.parametrize("kind", DATASETS)
def test_files_of_datasets_are_read(kind: str, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "data"
    DATASETS[kind](datasets.Dataset.from_dict(COLUMNS), path)
    assert examples(path) == sorted(zip(TEXTS, LABELS, strict=True))


def test_a_database_is_converted(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "data.db") as database:
        database.execute("create table t (text, label)")
        database.executemany("insert into t values (?, ?)", zip(TEXTS, LABELS, strict=True))
    database.close()
    check(tmp_path / "data.db")


def test_lines_of_json_without_a_library_are_read(tmp_path: Path) -> None:
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "a").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    check(tmp_path / "a")
