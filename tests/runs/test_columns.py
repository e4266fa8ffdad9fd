"""Tables and dicts from Python: a run reads the columns that it was trained on."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from clew.core.errors import UserError
from clew.runs.asking import read_rows
from clew.runs.columns import field_columns, plain_rows, row_of_dict
from clew.tasks.use import PairRow, TextRow
from tests.instruments.small_runs import small_run

TEXTS = ["the walls were tall", "she went in"]


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"id": [1, 2], "text": TEXTS}),
        pa.table({"text": TEXTS, "label": ["x", "y"]}),
        {"text": TEXTS, "label": ["x", "y"]},
        [{"id": number, "text": text} for number, text in enumerate(TEXTS)],
        pd.DataFrame({"letter": TEXTS}),
    ],
    ids=["pandas", "pyarrow", "columns", "dicts", "one column"],
)
def test_every_verb_reads_the_text_column_of_a_table(table: Any) -> None:
    if isinstance(table, pd.DataFrame) and "letter" in table:
        assert small_run("classifier").classify(table) == small_run("classifier").classify(TEXTS)
        return
    classifier, translator, writer = small_run("classifier"), small_run("attentive"), small_run("lstm")
    assert classifier.classify(table) == classifier.classify(TEXTS)
    assert (classifier.embed(table) == classifier.embed(TEXTS)).all()
    assert small_run("tagger").tag(table) == small_run("tagger").tag(TEXTS)
    assert translator.translate(table) == translator.translate(TEXTS)
    assert writer.choose(table, ["good", "bad"]) == writer.choose(TEXTS, ["good", "bad"])
    written = [each.text for each in writer.generate(table, max_new=4)]
    assert written == [each.text for each in writer.generate(TEXTS, max_new=4)]


def test_a_field_is_the_column_of_the_config_or_of_its_role() -> None:
    translator, tagger, classifier = (small_run(name) for name in ("attentive", "tagger", "classifier"))
    pairs = pd.DataFrame({"target": ["x"], "source": ["the walls"]})
    assert translator.translate(pairs) == translator.translate(["the walls"])
    assert tagger.tag(pd.DataFrame({"tags": [["A", "B"]], "words": [["the", "walls"]]})) == tagger.tag(
        [["the", "walls"]]
    )
    data = classifier.config.data.model_copy(update={"text": "body", "second": 3})
    table = pd.DataFrame({"text": ["no"], "body": ["yes"], "more": ["also"]})
    assert plain_rows(PairRow, data, table) == [{"text": "yes", "second": "also"}]
    assert row_of_dict(PairRow, data, {"body": "yes", "id": 7}, "text 1") == {"text": "yes"}
    assert row_of_dict(PairRow, data, {"text": "yes"}, "text 1") == {"text": "yes"}
    holes = pd.DataFrame({"text": ["yes", None, "4"], "n": [1, 2, 3]})
    assert [row["text"] for row in plain_rows(TextRow, classifier.config.data, holes)] == ["yes", "", "4"]
    assert plain_rows(TextRow, classifier.config.data, {"text": [4, 0.5]}) == [{"text": "4"}, {"text": "0.5"}]


@pytest.mark.parametrize(
    ("data", "column"),
    [
        ({"train": "pairs.csv", "source": "de"}, "de"),
        ({"train": "train.de", "source": "de"}, None),
        ({"train": "corpus/train", "source": "de"}, None),
        ({"train": ["a.de", "a.en"], "source": "de"}, None),
        ({"corpus": "tatoeba", "source": "de"}, None),
    ],
)
def test_the_source_of_parallel_text_is_no_column(data: dict[str, Any], column: str | None) -> None:
    section = small_run("attentive").config.data.model_copy(update={"train": None, "corpus": None, **data})
    assert [each.column for each in field_columns(TextRow, section)] == [column]


def test_a_table_without_the_column_is_refused() -> None:
    classifier = small_run("classifier")
    table = pd.DataFrame({"Text": ["a"], "queue": ["b"]})
    sentence = (
        "the table has no column 'text'; its columns are Text, queue; rename one, or pass the column itself instead of"
        " the table"
    )
    assert refusal(lambda: classifier.classify(table)) == refusal(lambda: classifier.embed(table)) == sentence
    data = classifier.config.data.model_copy(update={"text": "body"})
    assert refusal(lambda: plain_rows(TextRow, data, table)).startswith(
        "the table has no column 'body' (the run's column of the text); its columns are Text, queue"
    )
    assert refusal(lambda: plain_rows(TextRow, data, {"body": [{"a": 1}]})) == (
        "record 1: text takes a text, found an object; fix it, or leave the record out"
    )
    assert refusal(lambda: classifier.classify([{"Text": "hallo"}])) == (
        "text 1: no key 'text'; its keys are ['Text']; rename the key of the text"
    )
    assert refusal(lambda: row_of_dict(TextRow, data, {"Text": "hallo"}, "text 1")) == (
        "text 1: no key 'body' (the run's column of the text) or 'text'; its keys are ['Text']; rename the key of the"
        " text"
    )
    assert "unknown field 'secnd'; did you mean 'second'?" in refusal(
        lambda: read_rows(PairRow, [{"text": "a", "secnd": "b"}], "runs/mine", data=classifier.config.data)
    )
