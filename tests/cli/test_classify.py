"""`clew classify`, the evaluation of classifiers, and examples from Python."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew as library
from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

SMALL = [
    "model.dim=16",
    "model.embedding_dim=8",
    "text.min_count=1",
    "training.schedule=constant",
    "training.learning_rate=0.02",
    "training.evaluate_every=20",
    "training.steps=20",
    "device=cpu",
]
ROWS = [(f"my parcel {n} is late", "delivery") for n in range(10)] + [
    (f"I paid {n} times", "billing") for n in range(10)
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs trained for a few steps: on a table, on pairs of texts, on several labels, and on numbers."""
    folder = tmp_path_factory.mktemp("classifiers")
    tickets = "".join(f'{number},"{text},\nthanks",{label}\n' for number, (text, label) in enumerate(ROWS))
    (folder / "tickets.csv").write_text("id,body,queue\n" + tickets, encoding="utf-8")
    run_recipe(
        "classify",
        [f"data.train={folder / 'tickets.csv'}", "data.text=body", "data.label=queue", *SMALL],
        out=folder / "tickets",
    )
    lists: dict[str, tuple[list[str], Any]] = {
        "pairs": ([], [(text, "is it?", label) for text, label in ROWS]),
        "several": (["task.labels=several"], [(text, [label, "ticket"]) for text, label in ROWS]),
        "numbers": (["task.labels=number"], [(text, number / 4) for number, (text, _) in enumerate(ROWS)]),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        for name, (settings, data) in lists.items():
            library.train("classify", *SMALL, *settings, data=data, out=folder / name, quiet=True)
    return {name: folder / name for name in ("tickets", *lists, "tickets.csv")}


def test_a_line_shows_the_label_its_probability_and_the_text(clew: Clew, runs: dict[str, Path]) -> None:
    lines = "my parcel is late\n\nI paid\ttoo often\n"
    result = clew("classify", runs["tickets"], stdin=lines)
    assert result.status == 0 and result.err == ""
    first, empty, last = result.out.splitlines()
    assert (
        empty == ""
        and first.split("\t")[::2] == ["delivery", "my parcel is late"]
        and 0.5 < float(first.split("\t")[1]) <= 1
    )
    assert last.split("\t")[::2] == ["billing", "I paid too often"]
    objects = [json.loads(line) for line in clew("classify", runs["tickets"], "--json", stdin=lines).out.splitlines()]
    assert [each["label"] for each in objects] == ["delivery", None, "billing"]
    assert sum(objects[0]["probabilities"].values()) == pytest.approx(1) and list(objects[0]["probabilities"]) == [
        "delivery",
        "billing",
    ]
    Path("lines.txt").write_text(lines, encoding="utf-8")
    assert (
        clew("classify", runs["tickets"], "--file", "lines.txt").out
        == result.out
        == clew("predict", runs["tickets"], "lines.txt").out
    )
    assert clew("classify", runs["tickets"], stdin="") == (0, "", "")


def test_columns_of_a_table_default_to_those_of_training(clew: Clew, runs: dict[str, Path]) -> None:
    result = clew("classify", runs["tickets"], "--file", runs["tickets.csv"])
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 20 and rows[0][2] == "my parcel 0 is late, thanks"
    assert [row[0] for row in rows] == [label for _, label in ROWS]
    assert result.out == clew("predict", runs["tickets"], runs["tickets.csv"]).out
    Path("more.jsonl").write_text('{"message": "I paid"}\n{"message": "a parcel"}\n', encoding="utf-8")
    assert clew("classify", runs["tickets"], "--file", "more.jsonl", "--text", "message").out.startswith("billing\t")
    assert_refused(
        clew("classify", runs["tickets"], "--file", "more.jsonl"),
        "more.jsonl:1: no column 'body' for --text; there are: message",
    )
    assert_refused(
        clew("classify", runs["tickets"], "--text", "body", stdin="a\n"),
        "--text names a column of a table; give the table",
    )


def test_an_empty_cell_gives_an_empty_line(clew: Clew, runs: dict[str, Path]) -> None:
    Path("holes.csv").write_text("id,body\n1,I paid\n2,\n3,a parcel\n", encoding="utf-8")
    assert [
        line.split("\t")[0] for line in clew("classify", runs["tickets"], "--file", "holes.csv").out.splitlines()
    ] == [
        "billing",
        "",
        "delivery",
    ]
    Path("holes.jsonl").write_text(
        '{"text": "I paid", "second": null}\n{"text": "I paid", "second": "is it?"}\n', encoding="utf-8"
    )
    records = [
        json.loads(line) for line in clew("classify", runs["pairs"], "--file", "holes.jsonl", "--json").out.splitlines()
    ]
    assert [each["label"] for each in records] == [None, "billing"]
    Path("zero.jsonl").write_text('{"body": 0}\n', encoding="utf-8")
    assert clew("classify", runs["tickets"], "--file", "zero.jsonl").out.endswith("\t0\n")
    Path("wide.csv").write_text("id,body\n1,I paid,twice\n", encoding="utf-8")
    refused = clew("classify", runs["tickets"], "--file", "wide.csv")
    assert_refused(refused, "wide.csv:2: ")
    assert refused.err.endswith("; fix it\n")


def test_two_texts_are_separated_by_a_tab(clew: Clew, runs: dict[str, Path]) -> None:
    result = clew("classify", runs["pairs"], stdin="my parcel is late\tis it?\n\n")
    assert re.fullmatch(r"delivery\t[\d.]+\tmy parcel is late\tis it\?\n\n", result.out)
    assert_refused(
        clew("classify", runs["pairs"], stdin="a\tb\nc\n"),
        f"standard input, line 2: {runs['pairs']} reads text and second together, in one line with a tab between"
        " them; found 1",
    )
    assert clew("classify", runs["pairs"], "my parcel is late", "--second", "is it?").out == result.out.removesuffix(
        "\n"
    )
    assert_refused(
        clew("classify", runs["pairs"], "my parcel is late"),
        f"text 1: {runs['pairs']} reads text and second together; give the other with --second, or both in --file",
    )
    assert_refused(clew("classify", runs["tickets"], "a", "--second", "b"), "--second is for runs that read two texts")
    assert_refused(
        clew("classify", runs["tickets"], "--second", "b", "--file", "x.csv"),
        "--second is for runs that read two texts",
    )


def test_the_suggested_next_command_works(clew: Clew, runs: dict[str, Path]) -> None:
    rows = "".join(f'"{text}\n{"and so on " * 20}",is it?,{label}\n' for text, label in ROWS)
    Path("pairs.csv").write_text("text,second,label\n" + rows, encoding="utf-8")
    settings = ["data.train=pairs.csv", "data.second=second", *SMALL]
    trained = clew("train", "classify", *settings)
    assert "\nsecond:  is it?\n" in trained.out
    (suggested,) = re.findall(r"^next:  (.*)$", trained.err, re.MULTILINE)
    first, second = re.fullmatch(
        r"printf '%s\\t%s\\n' '([^']*)' '([^']*)' \| clew classify runs/classify", suggested
    ).groups()  # type: ignore[union-attr]
    assert len(first) <= 100 and second == "is it?"
    assert clew("classify", "runs/classify", stdin=f"{first}\t{second}\n").status == 0
    loaded = clew("train", "classify", "--resume").err.splitlines()[-1].split()
    assert loaded[:3] == ["clew", "train", "classify"] and {*settings, "model.num_layers=2"} - {*SMALL} <= {*loaded}


def test_several_labels_and_numbers_are_predicted(clew: Clew, runs: dict[str, Path]) -> None:
    labels, probabilities, _ = clew("classify", runs["several"], stdin="I paid 3 times\n").out.split("\t")
    assert set(labels.split("|")) == {"billing", "ticket"} and len(probabilities.split("|")) == 2
    number, text = clew("classify", runs["numbers"], stdin="I paid 3 times\n").out.split("\t")
    assert 0 < float(number) < 6 and text == "I paid 3 times\n"
    scored = json.loads(clew("evaluate", runs["numbers"], "--json").out)
    assert scored["baseline_mean_error"] > 0 and "baseline_naive_bayes" not in scored


def test_evaluation_shows_labels_confusions_and_worst_predictions(clew: Clew, runs: dict[str, Path]) -> None:
    Path("test.csv").write_text(
        "body,queue\nmy parcel,billing\nI paid 4 times,billing\nI paid,delivery\n", encoding="utf-8"
    )
    result = clew("evaluate", runs["tickets"], "test.csv", "--errors", 5)
    assert re.search(r"^label +precision +recall +F1 +support$", result.out, re.MULTILINE)
    assert re.search(r"^gold \\ predicted  billing  delivery\nbilling +1 +1\ndelivery +1 +0$", result.out, re.MULTILINE)
    rows = [line.split("\t") for line in result.out[result.out.index("id\t") :].splitlines()[1:]]
    assert {row[0]: row[1:3] for row in rows} == {
        "test.csv:2": ["billing", "delivery"],
        "test.csv:4": ["delivery", "billing"],
    }
    assert [float(row[3]) for row in rows] == sorted(float(row[3]) for row in rows)
    scored = json.loads(clew("evaluate", runs["tickets"], "test.csv", "--errors", 1, "--json").out)
    assert len(scored["errors"]) == 1 and scored["intervals"]["accuracy"][0] <= scored["accuracy"]
    assert "no prediction is wrong" in clew("evaluate", runs["tickets"], "--errors", 5).out


def test_lists_of_runs_show_the_measure_of_the_best_evaluation(clew: Clew, runs: dict[str, Path]) -> None:
    assert re.search(r"valid accuracy \d+\.\d\d ", clew("runs", runs["tickets"]).out)
    assert re.search(r"valid micro_f1 \d+\.\d\d ", clew("runs", runs["several"]).out)
    assert "valid accuracy" in clew("compare", runs["tickets"], runs["pairs"]).out.splitlines()[0]


def test_a_loaded_run_predicts_as_the_trained_one(clew: Clew) -> None:
    texts = ["my parcel", "I paid , I paid", "never seen"]
    other = {"delivery": "billing", "billing": "delivery"}
    noisy = [(text, label if number % 3 else other[label]) for number, (text, label) in enumerate(ROWS)]
    run = library.train("classify", *SMALL, data=noisy, out="run", quiet=True)
    loaded = library.load("run", device="cpu")
    assert loaded.classify(texts) == run.classify(texts)
    assert float(loaded.task.answer.temperature) == float(run.task.answer.temperature) != 1
    tagged = [(text.split(), ["B-" + label, *["O"] * (len(text.split()) - 1)]) for text, label in ROWS]
    tagger = library.train("tag", *SMALL, "embedding.dim=8", data=tagged, out="tagger", quiet=True)
    assert library.load("tagger", device="cpu").tag(texts) == tagger.tag(texts)


def test_a_rejected_temperature_is_logged(clew: Clew) -> None:
    """Every validation text is classified correctly and with confidence, so a temperature makes calibration worse."""
    Path("tickets.csv").write_text(
        "body,queue\n" + "".join(f"{text},{label}\n" for text, label in ROWS), encoding="utf-8"
    )
    result = clew(
        "train", "classify", "data.train=tickets.csv", "data.text=body", "data.label=queue", *SMALL, "--out", "run"
    )
    assert result.status == 0, result.err
    assert "probabilities are not calibrated: the temperature " in result.err
    assert float(library.load("run", device="cpu").task.answer.temperature) == 1


def test_a_run_trained_on_lists_is_loaded_and_evaluated(clew: Clew, runs: dict[str, Path]) -> None:
    run = library.load(runs["pairs"])
    assert run.classify([("my parcel is late", "is it?")])[0].label == "delivery"
    with pytest.raises(UserError, match=r"text 1: .*pairs takes text and second together; give them in a tuple"):
        run.classify("my parcel is late")
    assert clew("evaluate", runs["pairs"]).out.startswith("valid: loss ")
    with pytest.raises(UserError, match=r"text 2: .* takes one text; give it as a string"):
        library.load(runs["tickets"]).classify(["", ("a", "b")])


def test_only_texts_are_classified(runs: dict[str, Path]) -> None:
    run = library.load(runs["tickets"])
    with pytest.raises(UserError, match="expected a text, or a list of texts, found None"):
        run.classify(None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="text 2: expected a string, or several in a list or tuple, found 5"):
        run.classify(["a", 5])  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"text 1: .*pairs takes text and second together; give them in a tuple"):
        library.load(runs["pairs"]).classify([("a", "b", "c")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("recipe", "settings", "data", "message"),
    [
        (
            "classify",
            [],
            [("a", "x"), ("b",)],
            r"example 2: expected \(text, label\) or \(text, second, label\), found \('b',\)",
        ),
        (
            "classify",
            ["data.train=a.csv"],
            ROWS,
            "examples are given by data= and by data__train='a.csv'; leave one of them out",
        ),
        ("classify", [], {"trian": ROWS}, "unknown part of data 'trian'; did you mean 'train'"),
        ("classify", [], [], "data= has no examples for the part 'train'; pass a list with at least one"),
        ("classify", [], 5, "data= takes a list of examples, or a list for each part, but the part 'train' is 5"),
        ("tag", [], [(["a", "b"], ["X"])], "example 1: expected as many tags as words, found 2 words and 1 tags"),
        (
            "parse",
            [],
            ["a"],
            (
                "data= takes texts, labelled texts, tagged words, pairs and questions from memory, but this task learns"
                " from"
                r".*; pass a file instead, data=pathlib.Path\(FILE\)"
            ),
        ),
    ],
)
def test_invalid_lists_of_examples_are_rejected(
    clew: Clew, recipe: str, settings: list[str], data: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        library.train(recipe, *settings, data=data)


def test_mistakes_in_a_table_are_reported_in_one_line(clew: Clew) -> None:
    rows = "".join(f"{text},{label}\n" for text, label in ROWS)
    for text, settings, sentence in [
        (rows + '"open,billing\n', [], "t.csv:22: a quote opens in the record that begins here and does not close"),
        (rows, ["data.label=lable"], "t.csv: no column 'lable' for data.label; did you mean 'label'?"),
        (
            rows + "x,\n",
            [],
            "t.csv:22: the field for data.label is empty; fix it, or skip such records with data.faults=skip",
        ),
        (rows, ["data.test=more.csv"], "more.csv:2: unknown label 'biling'; did you mean 'billing'?"),
        (
            rows,
            ["task.class_weights=balancd"],
            "task.class_weights: unknown weighting of classes 'balancd'; did you mean 'balanced'?",
        ),
        (
            rows,
            ["task.class_weights={billing: 0}"],
            "task.class_weights: a class weight must be a number above 0, but 'billing' has 0",
        ),
        ("", [], "t.csv: there is a header and no record below it; give a file with records in it"),
    ]:
        Path("t.csv").write_text("text,label\n" + text, encoding="utf-8")
        Path("more.csv").write_text("text,label\nI paid,biling\n", encoding="utf-8")
        assert_refused(clew("train", "classify", "data.train=t.csv", *settings, *SMALL, "--out", "run"), sentence)
        assert not Path("run").exists()


def test_the_code_of_the_guide_runs(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    Path("runs").mkdir()
    Path("runs/sentiment-lstm").symlink_to(runs["tickets"])
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "classification.md").read_text(encoding="utf-8")
    exec(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0], {})
    first, several, last = capsys.readouterr().out.splitlines()
    assert first.split(" ")[0] in ("delivery", "billing") and several.count("'") == 4 and last == "delivery"


def test_options_of_predict_may_stand_anywhere_and_texts_differ_from_files(clew: Clew, runs: dict[str, Path]) -> None:
    Path("lines.txt").write_text("my parcel is late\n", encoding="utf-8")
    predictions = clew("predict", runs["tickets"], "lines.txt", "--json").out
    assert (
        predictions
        == clew("predict", "--json", runs["tickets"], "lines.txt").out
        == clew("predict", runs["tickets"], "--json", "lines.txt").out
    )
    assert clew("predict", runs["tickets"], "late?", "--json").out.startswith('{"line": 1, "text": "late?"')
    assert_refused(
        clew("predict", runs["tickets"], "late"),
        f"no such file: late; to give a single text: clew classify {runs['tickets']} late\n",
    )
    Path("letters.csv").write_text("body\nI paid\n", encoding="utf-8")
    assert_refused(
        clew("predict", runs["tickets"], "leters.csv"),
        "no such file: leters.csv; near it there is letters.csv; to give a single text: clew classify",
    )
    for verb in ("predict", "classify"):
        assert "unrecognized arguments: --jsn; did you mean --json?" in clew(verb, runs["tickets"], "--jsn").err
    pair = clew("predict", runs["pairs"], "my parcel is late\tis it?").out
    assert pair == clew("classify", runs["pairs"], "my parcel is late", "--second", "is it?").out != ""
    assert_refused(
        clew("classify", runs["pairs"], stdin="a\tb\tc\n"),
        f"standard input, line 1: {runs['pairs']} reads text and second",
    )
    assert (
        clew("predict", runs["tickets"], "late?", "late").out
        == clew("classify", runs["tickets"], "late?", "late").out
        != ""
    )
    assert clew("predict", runs["tickets"], "").out == "\n"


def test_a_pair_with_an_empty_text_gives_an_empty_answer(clew: Clew, runs: dict[str, Path]) -> None:
    run, complete = library.load(runs["pairs"]), clew("classify", runs["pairs"], "a", "--second", "b").out
    Path("pairs.csv").write_text("text,second,label\na,,x\na,b,x\n,b,x\n", encoding="utf-8")
    assert clew("classify", runs["pairs"], "--file", "pairs.csv").out == f"\n{complete}\n"
    assert clew("classify", runs["pairs"], stdin="a\t\na\tb\n\tb\n").out == f"\n{complete}\n"
    assert clew("classify", runs["pairs"], "a", "--second", "").out == "\n"
    assert run.classify([("a", ""), ("a", "b"), ("", "b")]) == [None, *run.classify([("a", "b")]), None]


def test_a_classifier_takes_no_choices(runs: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="^unknown field 'choices'; known: none$"):
        library.load(runs["tickets"]).choose("a", ["x", "y"])
