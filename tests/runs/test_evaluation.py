"""`Run.evaluate` gives the numbers of `clew evaluate`, on parts, files and examples from Python."""

import json
from pathlib import Path

import pytest

import clew
from clew.cli.main import main
from clew.core.errors import UserError
from clew.runs.loaded import Run
from tests.runs.small import gpt_settings

ROWS = [(f"a {word} film {number}", label) for number in range(12) for word, label in (("good", "pos"), ("bad", "neg"))]
SMALL = {"model__dim": 8, "embedding__dim": 8, "training__steps": 4, "training__evaluate_every": 4, "device": "cpu"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "rows.csv").write_text(
        "review,stars\n" + "".join(f"{text},{label}\n" for text, label in ROWS), encoding="utf-8"
    )
    columns = {"data__text": "review", "data__label": "stars"}
    classifier = clew.train(
        "classify", **SMALL, **columns, data=folder / "rows.csv", out=folder / "classifier", quiet=True
    )
    text = clew.train("text-gpt", *gpt_settings(folder, steps=2), out=folder / "gpt", quiet=True)
    return {"classifier": classifier, "text": text}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["classifier", "text"])
def test_evaluating_a_run_from_python_matches_the_command(
    runs: dict[str, Run], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluations = runs[name].evaluate(baselines=True)
    assert main(["evaluate", str(runs[name].folder), "--json", "--trust"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [*evaluations] == [each.get("part", each.get("text")) for each in printed]
    for evaluation, each in zip(evaluations.values(), printed, strict=True):
        assert {measure: each[measure] for measure in evaluation.measures} == pytest.approx(dict(evaluation.measures))
        assert evaluation.loss == evaluation["loss"] == evaluation.measures["loss"]


def test_files_and_examples_in_memory_score_alike(runs: dict[str, Run]) -> None:
    run = runs["classifier"]
    file = run.folder.parent / "rows.csv"
    whole = run.evaluate(file)
    tables = [ROWS, {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}]
    tables += [[{"review": text, "stars": label} for text, label in ROWS]]
    for data in (str(file), *tables):
        evaluation = run.evaluate(data)
        assert dict(evaluation.measures) == dict(whole.measures) and [*evaluation.scores.values()] == [
            *whole.scores.values()
        ]
    assert [*run.evaluate(ROWS[:3]).predictions] == ["1", "2", "3"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["words", "stars"])
    assert run.evaluate(frame, data__text="words").loss == whole.loss


def test_a_label_map_can_drop_any_label(runs: dict[str, Run]) -> None:
    run = runs["classifier"]
    rows = [*ROWS, ("a film", "v1. other thing")]
    assert len(run.evaluate(rows).scores) == len(rows)
    mapped = run.evaluate(rows, data__label_map={"v1. other thing": None})
    assert dict(mapped.measures) == dict(run.evaluate(ROWS).measures) and len(mapped.scores) == len(ROWS)


def test_faulty_examples_are_skipped_on_request(runs: dict[str, Run]) -> None:
    run = runs["classifier"]
    rows = [*ROWS, ("", "pos")]
    with pytest.raises(
        UserError, match="example 25: the field for data__text is empty; fix it, or skip such records with"
    ):
        run.evaluate(rows)
    evaluation = run.evaluate(rows, data__faults="skip")
    assert len(evaluation.scores) == len(ROWS) and "skipped 1 x empty field (first: example 25)" in evaluation.notes
    chosen = runs["text"].evaluate(rows, choices={"pos": "good", "neg": "bad"}, data__faults="skip")
    assert len(chosen.scores) == len(ROWS) and "skipped 1 x empty field (first: example 25)" in chosen.notes
    with pytest.raises(UserError, match="unknown value for data__faults 'skp'; did you mean 'skip'"):
        run.evaluate(rows, data__faults="skp")


def test_a_label_map_that_drops_every_label_is_rejected(runs: dict[str, Run]) -> None:
    Path("good.csv").write_text("text,label\na good film,pos\n", encoding="utf-8")
    with pytest.raises(
        UserError, match="good.csv: data__label_map leaves no labelled text; let it keep at least one label"
    ):
        runs["text"].evaluate(Path("good.csv"), choices={"pos": "good", "neg": "bad"}, data__label_map={"pos": None})


def test_a_text_scores_like_its_file(runs: dict[str, Run]) -> None:
    text = "the thread was red and long.\nshe followed it.\n"
    Path("text.txt").write_text(text, encoding="utf-8")
    run = runs["text"]
    assert run.evaluate(text).measures == run.evaluate(Path("text.txt")).measures
    assert run.evaluate(["the thread was red.", "she went."]).loss > 0
    with pytest.raises(
        UserError, match=r"'text.txt' is a file, but a string is taken as the text itself; to read the file, pass"
    ):
        run.evaluate("text.txt")


def test_a_language_model_is_evaluated_on_one_text_at_a_time(runs: dict[str, Run]) -> None:
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("the thread was red and long.\n", encoding="utf-8")
    with pytest.raises(UserError, match="a language model is evaluated on one text at a time, not on 2; give one file"):
        runs["text"].evaluate([Path("a.txt"), Path("b.txt")])


def test_a_language_model_is_evaluated_by_choices(runs: dict[str, Run]) -> None:
    evaluation = runs["text"].evaluate(ROWS[:6], choices={"pos": "good", "neg": "bad"})
    assert {"accuracy", "macro_f1"} <= evaluation.measures.keys() and len(evaluation.scores) == 6
    with pytest.raises(UserError, match="choices= needs labelled texts; pass them as data="):
        runs["text"].evaluate(choices=["good", "bad"])
    with pytest.raises(UserError, match="choices is for language models; .* is a run of the task classification"):
        runs["classifier"].evaluate(ROWS, choices=["pos", "neg"])


def test_an_evaluation_is_shown_as_text_and_html(runs: dict[str, Run]) -> None:
    evaluations = runs["classifier"].evaluate()
    valid = runs["classifier"].evaluate(part="valid")
    assert repr(valid).startswith("Evaluation(valid: loss ") and str(valid) == valid.text
    assert str(evaluations) == f"valid: {valid.text}"
    assert valid._repr_html_().count("<tr>") == 2 and "accuracy" in valid._repr_html_()


def test_mistakes_are_reported(runs: dict[str, Run]) -> None:
    run = runs["classifier"]
    for call, sentence in (
        (lambda: run.evaluate(part="tset"), "unknown part 'tset'; known: valid"),
        (lambda: run.evaluate(ROWS)["acuracy"], "unknown measure 'acuracy'; did you mean 'accuracy'?"),
        (lambda: run.evaluate("none.csv"), "no such file: none.csv; data= takes a pathlib.Path of a file, or examples"),
        (
            lambda: run.evaluate(ROWS, model__dim=3),
            "model__dim=3 cannot be changed: a trained run keeps its model; only data",
        ),
        (
            lambda: run.evaluate(ROWS, prat="valid"),
            "unknown keyword 'prat'; did you mean part? a setting is section__field=value",
        ),
        (lambda: run.evaluate(ROWS, choises=["a", "b"]), "unknown keyword 'choises'; did you mean choices?"),
        (lambda: run.evaluate(ROWS, beams=3), "unknown keyword 'beams'; did you mean decoding__beams or task__beams?"),
        (lambda: run.evaluate(ROWS, pivot="de"), "pivot is for translation between several languages"),
        (
            lambda: run.evaluate(streams=3),
            "streams is for a language model's own text; this run learns from labelled texts",
        ),
        (
            lambda: runs["text"].evaluate("a text", decoding__beams=2),
            "decoding__beams=2 is for tasks with a target",
        ),
        (lambda: runs["text"].evaluate(streams=0), "streams (0) must be at least 1"),
        (lambda: run.evaluate([]), "data= has no examples for the part 'data'; pass a list with at least one"),
    ):
        with pytest.raises(UserError) as caught:
            call()
        assert str(caught.value).startswith(sentence)
