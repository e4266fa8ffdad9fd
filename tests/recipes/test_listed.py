"""Data from Python: tables of every library, arrays, generators and texts become files that a run can read again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.core.errors import UserError
from clew.recipes.listed import listed_settings

TEXTS = ["ä film", "a book", "a song"]
LABELS = ["good", "bad", "good"]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def pandas_table(dtype: str) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"text": TEXTS, "label": LABELS}, index=[5, 6, 9]).astype({"text": dtype})


TABLES: dict[str, Callable[[], Any]] = {
    "tuples": lambda: list(zip(TEXTS, LABELS, strict=True)),
    "a generator of tuples": lambda: ((row["text"], row["label"]) for row in ROWS),
    "dicts": lambda: ROWS,
    "a generator of dicts": lambda: (row for row in ROWS),
    "a dict of columns": lambda: {"text": TEXTS, "label": LABELS},
    "a dict of arrays": lambda: {"text": np.array(TEXTS), "label": np.array(LABELS)},
    "an array": lambda: np.array([TEXTS, LABELS]).T,
    "a structured array": lambda: np.array(
        list(zip(TEXTS, LABELS, strict=True)), dtype=[("text", "U9"), ("label", "U9")]
    ),
    "pyarrow": lambda: pytest.importorskip("pyarrow").Table.from_pylist(ROWS),
    "pandas object": lambda: pandas_table("object"),
    "pandas str": lambda: pandas_table("str"),
    "pandas category": lambda: pandas_table("category"),
    "polars": lambda: pytest.importorskip("polars").DataFrame(ROWS),
    "datasets": lambda: pytest.importorskip("datasets").Dataset.from_list(ROWS),
    "datasets with classes": lambda: (
        pytest.importorskip("datasets").Dataset.from_list(ROWS).class_encode_column("label")
    ),
    "datasets in a stream": lambda: pytest.importorskip("datasets").Dataset.from_list(ROWS).to_iterable_dataset(),
}


def stored_rows(settings: list[str], part: str = "train") -> list[Any]:
    path = next(setting.partition("=")[2] for setting in settings if setting.startswith(f"data.{part}="))
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_in_memory_is_stored_as_rows(kind: str) -> None:
    settings = listed_settings("classify", [], TABLES[kind]())
    assert stored_rows(settings) == ROWS
    assert {"data.text=text", "data.label=label", "data.format=null"} <= set(settings)


@pytest.mark.parametrize("kind", ["dicts", "a dict of columns", "pandas str", "polars", "datasets"])
def test_each_part_can_be_a_table(kind: str) -> None:
    settings = listed_settings("classify", [], {"train": TABLES[kind](), "validation": TABLES["tuples"]()})
    assert stored_rows(settings) == stored_rows(settings, "valid") == ROWS


def test_a_dataset_dict_gives_the_parts() -> None:
    datasets = pytest.importorskip("datasets")
    part = datasets.Dataset.from_list(ROWS)
    settings = listed_settings("classify", [], datasets.DatasetDict({"train": part, "validation": part, "test": part}))
    assert stored_rows(settings) == stored_rows(settings, "valid") == stored_rows(settings, "test") == ROWS


def test_columns_are_chosen_as_on_the_command_line() -> None:
    rows = [{"review": text, "label": "x", "stars": number} for number, text in enumerate(TEXTS)]
    settings = listed_settings("classify", ["data.text=review", "data.label=stars"], rows)
    assert not any(setting.startswith(("data.text=", "data.label=")) for setting in settings)
    assert stored_rows(settings) == rows


def test_missing_values_become_null_and_lists_stay_lists() -> None:
    rows = [{"words": np.array(["a", "b"]), "tags": ("X", "Y"), "n": np.float64("nan"), "i": np.int64(3)}]
    assert stored_rows(listed_settings("tag", [], rows)) == [
        {"words": ["a", "b"], "tags": ["X", "Y"], "n": None, "i": 3}
    ]
    days = np.array(["2020-01-02", "NaT"], dtype="datetime64[ns]")
    rows_with_days = [{"text": "a", "label": days[0], "days": days}]
    assert stored_rows(listed_settings("classify", [], rows_with_days)) == [
        {"text": "a", "label": "2020-01-02 00:00:00", "days": ["2020-01-02 00:00:00", None]}
    ]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "text": ["a", None],
            "label": pandas.array([1, None], dtype="Int64"),
            "day": pandas.to_datetime(["2020-01-02"] * 2),
        }
    )
    rows_read = stored_rows(listed_settings("classify", [], frame))
    assert [(row["text"], row["label"], row["day"][:10]) for row in rows_read] == [
        ("a", 1, "2020-01-02"),
        (None, None, "2020-01-02"),
    ]


@pytest.mark.parametrize(
    ("recipe", "examples", "role"),
    [
        ("classify", [("a", float("nan"))], "label"),
        ("classify", [(np.float64("nan"), "x")], "text"),
        ("classify", [("a", ["x", float("nan")])], "label"),
        ("translate", [("a", float("nan"))], "target"),
    ],
)
def test_a_missing_value_in_a_tuple_is_rejected(recipe: str, examples: list[Any], role: str) -> None:
    with pytest.raises(UserError, match=f"the field for data.{role} is null"):
        listed_settings(recipe, [], examples)


def test_numbers_of_numpy_are_labels_like_those_of_python() -> None:
    for numbers in ([1, 0, 2], [True, False, True], [1.5, 2.0, 3.0]):
        expected = stored_rows(listed_settings("classify", [], zip(TEXTS, numbers, strict=True)))
        assert stored_rows(listed_settings("classify", [], zip(TEXTS, np.array(numbers), strict=True))) == expected


def test_faulty_tuples_are_skipped_and_counted_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    examples = [("", "x"), *zip(TEXTS, LABELS, strict=True), ("a", None)]
    with pytest.raises(UserError, match="^example 1: the field for data.text is empty; fix it, or skip such records"):
        listed_settings("classify", [], examples)
    notes: list[str] = []
    assert stored_rows(listed_settings("classify", ["data.faults=skip"], examples, notes.append)) == ROWS
    assert notes == ["train: skipped 2 x empty field (first: example 1)"]
    with pytest.raises(UserError, match="the list of examples"):
        listed_settings("classify", ["data.faults=skip"], examples[:1])


def test_columns_with_the_same_name_are_rejected() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([("a", "b", "x")], columns=["text", "text", "label"])
    with pytest.raises(UserError, match=r"^the table has several columns 'text'; rename them or drop all but one$"):
        listed_settings("classify", [], frame)


@pytest.mark.parametrize(
    "data", [lambda: iter(TEXTS), lambda: TEXTS, lambda: np.array(TEXTS), lambda: {"text": TEXTS}, lambda: ROWS]
)
def test_texts_for_a_language_model_are_documents(data: Callable[[], Any]) -> None:
    assert stored_rows(listed_settings("text-lstm", [], data())) == [{"text": text} for text in TEXTS]
    assert stored_rows(listed_settings("text-lstm", ["data.text=body"], TEXTS)) == [{"body": text} for text in TEXTS]


def test_a_language_model_can_be_trained_on_a_string() -> None:
    settings = [
        "training.steps=2",
        "training.evaluate_every=2",
        "model.dim=8",
        "training.batch_size=2",
        "training.length=8",
        "device=cpu",
    ]
    text = "to be or not to be that is the question\n" * 40
    run = clew.train("text-lstm", *settings, data=text, quiet=True)
    assert Path(run.config.data.train).read_text(encoding="utf-8") == text
    assert len(run.generate("to", max_new=5).text) >= 5


def test_mistakes_are_reported() -> None:
    for data, sentence in (
        (
            {"text": ["a"], "label": ["x", "y"]},
            "the columns of the table have different lengths: text 1, label 2; give each column one value per",
        ),
        ({"trian": [("a", "x")]}, "unknown part of data 'trian'; did you mean 'train'?"),
        (
            {"text": "review", "label": "stars"},
            "data= takes examples, and data={'text': 'review'} has none; name a column with data.text=review",
        ),
        (
            {"train": [("a", "x")], "valid": [("a", "x")], "validation": [("b", "x")]},
            "data= has valid and validation, which are the same part; leave one of them out",
        ),
        (
            [{"text": "a", "label": "x"}, ("b", "y")],
            "example 1 of data= is a dict, but example 2 is ('b', 'y'); pass a dict for each example",
        ),
        ([None, ("a", "x")], "example 1: expected (text, label) or (text, second, label), found None"),
        ({"valid": [("a", "x")]}, "data= has no part 'train'; give examples to train on"),
        ([], "data= has no examples for the part 'train'; pass a list with at least one"),
        (3, "data= takes a list of examples, or a list for each part, but the part 'train' is 3"),
    ):
        with pytest.raises(UserError) as caught:
            listed_settings("classify", [], data)
        assert str(caught.value).startswith(sentence)
    for data, sentence in (
        (" ", "data= has no examples for the part 'train'"),
        ([None, "a"], "data= takes a text, a list of texts, or a table with a column 'text', but example 1 has None"),
        (["a", 3], "data= takes a text, a list of texts, or a table with a column 'text', but example 2 has 3"),
    ):
        with pytest.raises(UserError) as caught:
            listed_settings("text-lstm", [], data)
        assert str(caught.value).startswith(sentence)
    with pytest.raises(
        UserError, match=r"^examples are given by data= and by data.train=a.csv; leave one of them out$"
    ):
        listed_settings("classify", ["data.train=a.csv"], ROWS)


def test_a_file_can_replace_examples() -> None:
    Path("a.csv").write_text("text,label\na,x\n")
    for data in ("a.csv", Path("a.csv"), {"train": Path("a.csv")}):
        assert listed_settings("classify", [], data) == ["data.corpus=null", 'data.train="a.csv"']
    assert listed_settings("translate", [], [Path("a.de"), Path("a.en")]) == [
        "data.corpus=null",
        'data.train=["a.de", "a.en"]',
    ]
    with pytest.raises(
        UserError,
        match="data= has files for some parts and examples for others; give files for all of them, or examples",
    ):
        listed_settings("classify", [], {"train": Path("a.csv"), "valid": ROWS})
    with pytest.raises(
        UserError,
        match=r"'a.csv' is a file, but a string is taken as the text itself; to read the file, pass"
        r" pathlib.Path\('a.csv'\)",
    ):
        listed_settings("text-lstm", [], "a.csv")
