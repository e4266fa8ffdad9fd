"""`clew answer`, the evaluation of its answers, and questions from Python."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import clew as library
from clew.core.errors import UserError
from clew.data.synthetic.questions import synthetic_questions
from clew.metrics.answers import score_answers
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

SMALL = ["model.dim=16", "training.schedule=constant", "training.steps=3", "training.evaluate_every=3", "device=cpu"]
PASSAGE = "Ada lives in Rome.\nBo likes green apples."


def squad(path: Path, questions: Any) -> Path:
    paragraphs = [
        {
            "context": each.passage,
            "qas": [
                {
                    "id": each.id,
                    "question": each.question,
                    "answers": [{"text": a.text, "answer_start": a.start} for a in each.answers],
                }
            ],
        }
        for each in questions
    ]
    path.write_text(
        json.dumps({"version": "v2.0", "data": [{"title": "facts", "paragraphs": paragraphs}]}), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run trained for a few steps on a file in SQuAD's format, and the file for evaluation."""
    folder = tmp_path_factory.mktemp("answers")
    train, dev = (
        squad(folder / f"{name}.json", synthetic_questions(size, 1, 2, 9))
        for name, size in (("train", 60), ("dev", 20))
    )
    run_recipe(
        "answer-facts", ["data.corpus=null", f"data.train={train}", f"data.valid={dev}", *SMALL], out=folder / "run"
    )
    return {"run": folder / "run", "dev": dev}


def test_answers_give_their_characters_in_the_passage(clew: Clew, facts: dict[str, Path]) -> None:
    Path("passage.txt").write_text(PASSAGE, encoding="utf-8")
    questions = ["Where does Ada live?", "What does Bo like?"]
    result = clew("answer", facts["run"], "--passage", "passage.txt", *questions, "--json", "--n-best", "3")
    assert result.status == 0
    for question, line in zip(questions, result.out.splitlines(), strict=True):
        fields = json.loads(line)
        assert fields["question"] == question and len(fields["n_best"]) == 3
        for span in [fields, *fields["n_best"]]:
            assert span.get("answer", span.get("text")) in (None, PASSAGE[span["start"] or 0 : span["stop"]])
        assert 0 < sum(span["probability"] for span in fields["n_best"]) + fields["no_answer"] <= 1
    lines = clew("answer", facts["run"], "--passage", PASSAGE, stdin="\n".join(["", *questions])).out.splitlines()
    assert [line.split("\t")[2] for line in lines] == questions
    assert len(clew("answer", facts["run"], "--passage", PASSAGE, questions[0], "--n-best", "4").out.splitlines()) == 4
    for threshold, answers in (("-1e6", 0), ("1e6", 2)):
        answer_lines = clew(
            "answer", facts["run"], "--passage", PASSAGE, *questions, "--threshold", threshold
        ).out.splitlines()
        assert sum(line.split("\t")[0] != "" for line in answer_lines) == answers
    run = library.load(facts["run"])
    answered = run.answer(questions, PASSAGE, n_best=3)
    assert [each.text for each in answered] == [line.split("\t")[0].replace(". Bo", ".\nBo") for line in lines]
    assert str(run.answer(questions[0], PASSAGE)) == answered[0].text


def test_a_file_is_answered_and_scored_as_its_official_output(clew: Clew, facts: dict[str, Path]) -> None:
    assert clew("answer", facts["run"], "--file", facts["dev"], "--official", "--out", "predictions.json").out == ""
    texts = json.loads(Path("predictions.json").read_text(encoding="utf-8"))
    examples = synthetic_questions(20, 1, 2, 9)
    assert list(texts) == [each.id for each in examples]
    scores = score_answers([texts[each.id] for each in examples], [each.texts for each in examples])
    for files in ([facts["dev"]], []):
        evaluated = json.loads(clew("evaluate", facts["run"], *files, "--json").out)
        assert evaluated["f1"] == pytest.approx(100 * scores.mean("f1")) and evaluated["exact_match"] == pytest.approx(
            100 * scores.mean("exact")
        )
        low, high = evaluated["intervals"]["f1"]
        assert low <= evaluated["f1"] <= high and 0 < evaluated["baseline_word_overlap"] < 60
    lines = clew("predict", facts["run"], facts["dev"], "--json").out.splitlines()
    assert [json.loads(line)["answer"] or "" for line in lines] == list(texts.values())
    described = clew("data", facts["dev"]).out
    assert "questions on passages (SQuAD), 20 records" in described
    assert described.endswith(f"clew train answer data.train={facts['dev']} transfer.from=RUN\n")


def test_questions_without_an_answer_are_rejected_in_one_line(clew: Clew, facts: dict[str, Path]) -> None:
    run = facts["run"]
    assert_refused(
        clew("answer", run, "Where?"),
        f"text 1: {run} reads question and passage together; give the other with --passage, or both in --file",
    )
    assert_refused(
        clew("answer", run, facts["dev"]), f"{facts['dev']} is a file, not a text; use --file {facts['dev']}"
    )
    assert_refused(clew("answer", run, "--passage", "nowhere.txt", "Where?"), "no such file: nowhere.txt")
    assert_refused(clew("answer", run, "--passage", " ", "Where?"), "the passage is empty")
    assert_refused(clew("answer", run, "--passage", PASSAGE, " "), "question 1 is empty; ask something")
    assert_refused(
        clew("answer", run, "--file", facts["dev"], "--official", "--n-best", "2"),
        "the official format has exactly one answer for each question; leave --n-best out",
    )
    assert_refused(
        clew("answer", run, "--passage", PASSAGE, "Where?", "--n-best", "0"), "--n-best must be at least 1, not 0"
    )
    assert_refused(
        clew("answer", run, "--file", facts["dev"], "--official", "--json"),
        "argument --json: not allowed with argument --official",
    )
    Path("table.tsv").write_text(f"asked\ttext\nWhere?\t{' '.join(PASSAGE.split())}\n", encoding="utf-8")
    assert_refused(
        clew("answer", run, "--file", "table.tsv"),
        "table.tsv: no column 'question'; name it with --question NAME; there are: ",
    )
    assert_refused(
        clew("answer", run, "--file", "table.tsv", "Where?"),
        "texts are given both as arguments and with --file; leave one of them out",
    )
    named_columns = clew("answer", run, "--file", "table.tsv", "--question", "asked", "--passage", "text")
    assert named_columns.status == 0 and named_columns.out.endswith("\tWhere?\n")
    Path("holes.csv").write_text("question,passage\nWhere?,Ada lives in Rome.\nWhat?,\n", encoding="utf-8")
    refused = clew("answer", run, "--file", "holes.csv")
    assert refused.err == "clew: holes.csv:3: the field for --passage is empty; fix it\n" and refused.status == 2
    assert_refused(
        clew("answer", run, "--question", "asked", "Where?"),
        "--question names a column of a table; give the table with --file",
    )
    assert_refused(
        clew("answer", run, "--file", facts["dev"], "--question", "asked"),
        f"--question names a column of a table, and {facts['dev']} is JSON in SQuAD's format; leave it out",
    )
    of_task = f"{run} is a run of the task question_answering, which cannot classify; use `clew answer`"
    assert_refused(clew("classify", run), of_task)
    with pytest.raises(UserError, match="the passage is empty; give a text that may contain the answer"):
        library.load(run).answer("Where?", "")


def test_training_accepts_questions_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    rows = [
        (each.question, each.passage, *(() if not each.answers else each.answers[0]))
        for each in synthetic_questions(40, 1, 1, 3)
    ]
    run = library.train("answer-facts", *SMALL, data=rows, out=tmp_path / "run", quiet=True)
    assert run.answer("Where does Ada live?", PASSAGE).no_answer is not None


def test_the_code_of_the_guide_runs(
    facts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    shutil.copytree(facts["run"], "runs/answer-facts")
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "reading.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    assert len(names["found"].n_best) == 3 and names["found"].n_best[0].text in names["passage"]
    assert names["small"].answer("Who is here?", "Eve is here.").no_answer is None
    capsys.readouterr()
