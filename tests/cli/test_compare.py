import json
from pathlib import Path

import pytest

from clew.recipes.resolving import config_of
from clew.runs.directory import append_metrics, write_config
from clew.runs.folder.predictions import write_predictions
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused


def new_run(folder: str, loss: float | None, *settings: str, recipe: str = "shakespeare-lstm") -> Path:
    path = Path(folder)
    path.mkdir(parents=True)
    config = config_of(recipe, settings)
    write_config(path, config)
    if loss is not None:
        for step in (500, 1000, config.training.steps):
            append_metrics(path, {"step": step, "train.loss": loss + 100 / step})
            append_metrics(
                path, {"step": step, "valid.loss": loss + 200 / step, "valid.perplexity": 2 ** (loss + 200 / step)}
            )
        append_metrics(
            path,
            {
                "step": config.training.steps,
                "best.step": 1000,
                "best.valid.loss": loss,
                "best.valid.perplexity": 2**loss,
            },
        )
    return path


@pytest.fixture
def cells(clew: Clew) -> None:
    for cell, loss in (("lstm", 1.56), ("gru", 1.53), ("elman", 1.71)):
        for seed in (1, 2, 3):
            new_run(f"runs/cell={cell}-seed={seed}", loss + 0.01 * seed, f"model.cell={cell}", f"seed={seed}")


@pytest.mark.usefixtures("cells")
def test_groups_are_ranked_and_tested_and_their_differences_shown(clew: Clew) -> None:
    result = clew("compare", "runs")
    assert (result.status, result.err) == (0, "")
    header, *lines = result.out.splitlines()
    assert header.split() == ["#", "group", "n", "valid", "loss", "valid", "perplexity", "p", "test"]
    assert lines[0].split() == ["1", "cell=gru", "3", "1.5500", "±", "0.0100", "2.93", "±", "0.02", "reference"]
    assert lines[1].split()[:2] == ["2", "cell=lstm"] and lines[1].endswith("0.021  Welch, 3 and 3 seeds")
    assert lines[2].split()[:2] == ["3", "cell=elman"] and lines[2].endswith("<0.001  Welch, 3 and 3 seeds")
    assert [line.split() for line in lines[3:]] == [
        [],
        ["differs", "value", "(groups)"],
        ["model.cell", "gru", "(1);", "lstm", "(2);", "elman", "(3)"],
    ]


@pytest.mark.usefixtures("cells")
def test_the_first_group_can_be_the_reference(clew: Clew) -> None:
    runs = ["runs/cell=elman-seed=1", "runs/cell=elman-seed=2", "runs/cell=gru-*"]
    rows = [json.loads(line) for line in clew("compare", *runs, "--against", "first", "--json").out.splitlines()]
    assert [(row["group"], row.get("against")) for row in rows] == [("cell=gru", "cell=elman"), ("cell=elman", None)]
    assert rows[0]["test"] == "Welch" and rows[0]["over"] == "3 and 2 seeds" and rows[0]["p"] < 0.01
    assert rows[0]["mean"]["valid.loss"] == pytest.approx(1.55) and rows[0]["spread"]["valid.loss"] == pytest.approx(
        0.01
    )
    assert rows[0]["settings"] == {"model.cell": "gru"} and len(rows[0]["runs"]) == rows[0]["n"] == 3


@pytest.mark.usefixtures("cells")
def test_predictions_enable_a_paired_bootstrap(clew: Clew) -> None:
    for cell, better in (("lstm", 0.0), ("gru", 0.3)):
        write_predictions(Path(f"runs/cell={cell}-seed=1"), {f"example {i}": (i % 7) * 0.1 + better for i in range(40)})
    result = clew("compare", "runs/cell=lstm-seed=1", "runs/cell=gru-seed=1")
    assert result.out.splitlines()[2].endswith("<0.001  paired bootstrap, scores of 40 examples")


@pytest.mark.usefixtures("cells")
def test_both_paired_tests_are_shown_and_either_can_be_first(clew: Clew) -> None:
    for cell, right in (("lstm", 3), ("gru", 4)):
        rows = {f"example {i}": {"accuracy": {"share": [float(i % 5 < right), 1]}} for i in range(40)}
        write_predictions(Path(f"runs/cell={cell}-seed=1"), dict.fromkeys(rows, 0.0), None, rows)
        append_metrics(
            Path(f"runs/cell={cell}-seed=1"), {"step": 1500, "best.step": 1000, "best.valid.accuracy": 20.0 * right}
        )
    arguments = ["compare", "runs/cell=lstm-seed=1", "runs/cell=gru-seed=1", "--measure", "valid.accuracy"]
    result = clew(*arguments)
    assert result.err == "" and result.out.splitlines()[0].endswith("p  p, approximate randomisation  test")
    assert result.out.splitlines()[2].endswith("paired bootstrap, accuracy of 40 examples")
    one, other = (
        json.loads(clew(*arguments, "--json", *more).out.splitlines()[1]) for more in ([], ["--test", "randomisation"])
    )
    assert (one["test"], other["test"]) == ("paired bootstrap", "approximate randomisation")
    assert one["beside"] == {"test": other["test"], "p": other["p"]} and other["beside"] == {
        "test": one["test"],
        "p": one["p"],
    }
    # 8 of 40 differ, all in one direction: 2 of the 2^8 swaps keep the full difference.
    assert other["p"] == pytest.approx(2 / 2**8, abs=0.005)


@pytest.mark.usefixtures("cells")
def test_tables_are_written_in_markdown_and_latex(clew: Clew) -> None:
    markdown = clew("compare", "runs", "--format", "markdown").out.splitlines()
    assert markdown[1] == "| ---: | --- | ---: | ---: | ---: | ---: | --- |"
    assert markdown[2] == "| 1 | cell=gru | 3 | 1.5500 ± 0.0100 | 2.93 ± 0.02 |  | reference |"
    latex = clew("compare", "runs", "--format", "latex").out.splitlines()
    assert latex[0] == r"\begin{tabular}{rlrrrrl}" and latex[4].startswith(r"1 & cell=gru & 3 & 1.5500 $\pm$ 0.0100 & ")


@pytest.mark.usefixtures("cells")
@pytest.mark.parametrize("name", ["curves.html", "curves.png", "curves.pdf"])
def test_curves_are_drawn_to_a_file(clew: Clew, name: str) -> None:
    if not name.endswith(".html"):
        pytest.importorskip("matplotlib")
    result = clew("compare", "runs", "--curves", name)
    assert result.status == 0 and result.err == f"wrote the curves to {name}\n"
    content = Path(name).read_bytes()
    assert content.startswith({"html": b"<!doctype html>", "png": b"\x89PNG", "pdf": b"%PDF"}[name[7:]])
    if name.endswith(".html"):
        text = content.decode()
        assert (
            "Learning curves of shakespeare-lstm" in text
            and "9 runs in 3 groups" in text
            and "nats per character" in text
        )
        assert text.count('class="run ') == 2 * 9 and text.count('class="mean ') == 2 * 3


@pytest.mark.usefixtures("cells")
def test_incomparable_runs_are_named_and_skipped(clew: Clew) -> None:
    new_run("runs/new", None)
    Path("runs/broken").mkdir()
    Path("runs/broken/config.json").write_text("{")
    new_run("runs/again", 1.0, "model.cell=gru", "seed=1")
    result = clew("compare", "runs")
    assert result.status == 0
    assert result.err.splitlines()[1:] == [
        "skipped: runs/new has no evaluation yet",
        "note: runs/cell=gru-seed=1 is skipped: it has the same settings and seed as runs/again",
    ]
    assert result.err.startswith("skipped: runs/broken/config.json is not JSON")


def test_one_group_is_shown_without_a_test(clew: Clew) -> None:
    new_run("runs/a", 1.5)
    result = clew("compare", "runs/a")
    assert [line.split() for line in result.out.splitlines()] == [
        ["#", "group", "n", "valid", "loss", "valid", "perplexity"],
        ["1", "shakespeare-lstm", "1", "1.5000", "2.83"],
    ]


def test_unfinished_runs_and_different_tokens_are_noted(clew: Clew) -> None:
    new_run("runs/a", 1.5, "training.steps=1200")
    new_run("runs/b", 4.5, "text.tokenizer=word", "training.steps=1200")
    config = json.loads(Path("runs/a/config.json").read_text())
    config["training"]["steps"] = 1500
    del config["sha256"]
    Path("runs/a/config.json").write_text(json.dumps(config))
    result = clew("compare", "runs")
    assert "note: runs/a is interrupted at step 1200 of 1500\n" in result.err
    assert "note: the groups have different tokens (text.tokenizer), so valid.loss is not comparable;" in result.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["runs/x*"], "no run matches runs/x*; `clew runs` lists the runs"),
        (["runs/empty"], "there is no run below runs/empty; `clew runs DIR` lists the runs below a folder"),
        (["nowhere"], "nowhere is not a run directory (it has no config.json); runs here: runs/a"),
        (
            ["runs", "--measure", "valid.bleu"],
            "unknown measure 'valid.bleu'; did you mean 'valid.loss'? known: valid.loss, valid.perplexity",
        ),
        (["runs", "--curves", "curves.gif"], "--curves (curves.gif) must end in .html, .png, .pdf or .svg"),
        (["runs", "--curves", "none/curves.html"], "no such folder for --curves: none; create it first"),
        (["runs", "--format", "word"], "argument --format: invalid choice: 'word'"),
        ([], "the following arguments are required: RUN; `clew runs compare --help` shows how"),
    ],
)
def test_mistakes_in_comparing_are_reported_in_one_line(clew: Clew, arguments: list[str], sentence: str) -> None:
    new_run("runs/a", 1.5)
    Path("runs/empty").mkdir()
    assert_refused(clew("compare", *arguments), sentence)


def test_runs_without_any_evaluation_are_rejected(clew: Clew) -> None:
    new_run("runs/new", None)
    result = clew("compare", "runs/new")
    assert result.status == 2
    assert result.err.splitlines() == [
        "skipped: runs/new has no evaluation yet",
        "clew: none of these runs can be compared; `clew runs` shows the state of each",
    ]


def test_pictures_need_matplotlib_but_the_page_does_not(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    new_run("runs/a", 1.5)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    assert_refused(
        clew("compare", "runs/a", "--curves", "x.png"),
        "pictures are drawn with matplotlib, which is not installed; `pip install",
    )
    assert clew("compare", "runs/a", "--curves", "x.html").status == 0
