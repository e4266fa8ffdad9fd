"""The user-defined task of CONTRIBUTING.md works with every verb, from its laws to the page."""

import asyncio
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
import torch
from safetensors.torch import load_file

from clew.cli.main import main
from clew.runs.folder.run_files import WEIGHTS
from clew.runs.loaded import Run, load_run
from clew.serving.inspector import Inspector, LookRequest
from clew.serving.service import Service
from clew.serving.worker import Worker
from clew.tasks import TASKS
from clew.training.checkpoints import checkpoint_folders
from tests.interop.test_programs import loaded
from tests.interop.untrained import tensors_of
from tests.test_contributing import EXAMPLES, SUBJECTS, VERBS

CODE = EXAMPLES["A task"].files["acceptability.py"]
BODY = (
    "model={family: mixed, dim: 16, layers: [{name: attention, num_heads: 2, causal: false}, feedforward], dropout:"
    " 0.2}"
)
STEPS = ["training.steps=100", "training.evaluate_every=10", "training.learning_rate=0.01"]
TRAIN = ["train", "classify", "task=acceptability", "data.train=sentences.csv", BODY, *STEPS]
GOOD, BAD = "the dog runs", "runs the dog the"


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


class Trained(NamedTuple):
    """A run that was not interrupted, in a folder with its data, and the output of its training."""

    folder: Path
    output: Outcome

    @property
    def run(self) -> Run:
        return load_run(self.folder / "whole", device="cpu", code=self.folder / "mine.py")

    def clew(self, *words: object, stdin: str = "") -> Outcome:
        """Run a command in the folder."""
        streams = sys.stdin, sys.stdout, sys.stderr
        before = Path.cwd()
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(stdin), io.StringIO(), io.StringIO()
        os.chdir(self.folder)
        try:
            status = main([str(word) for word in words])
            return Outcome(status, sys.stdout.getvalue(), sys.stderr.getvalue())
        finally:
            os.chdir(before)
            sys.stdin, sys.stdout, sys.stderr = streams


def forget_code() -> None:
    TASKS.pop("acceptability", None)
    for name in [name for name in sys.modules if name.startswith("clew_user_code_")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(CODE, encoding="utf-8")
    rows = [f"{subject} {verb},1\n{verb} {subject} the,0\n" for subject in SUBJECTS for verb in VERBS]
    (folder / "sentences.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        output = Trained(folder, Outcome(0, "", "")).clew(*TRAIN, "--code", "mine.py", "--out", "whole")
        assert output.status == 0, output.err
        yield Trained(folder, output)
    forget_code()


@pytest.fixture
def fresh(trained: Trained) -> Iterator[Trained]:
    """The trained run in a state where the user's file has not been imported."""
    entry, modules = (
        TASKS["acceptability"],
        {name: sys.modules[name] for name in sys.modules if name.startswith("clew_user_code_")},
    )
    forget_code()
    yield trained
    forget_code()
    TASKS["acceptability"] = entry
    sys.modules.update(modules)


@pytest.mark.slow
def test_a_killed_training_resumes_to_bit_identical_weights(trained: Trained) -> None:
    words = [*TRAIN, "--code", "mine.py", "--out", "killed"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen(
        [sys.executable, "-m", "clew.cli.main", *words],
        cwd=trained.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    folder = trained.folder / "killed"
    while not checkpoint_folders(folder):
        assert process.poll() is None, "training ended before its first checkpoint"
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert checkpoint_folders(folder)[0].name < "step-00000100"
    again = trained.clew(*words, "--resume")
    assert again.status == 0 and "step 100" in again.err
    resumed, whole = (load_file(place / WEIGHTS) for place in (folder, trained.folder / "whole"))
    assert resumed.keys() == whole.keys() and all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_it_learns_and_is_evaluated(trained: Trained) -> None:
    scores = json.loads(trained.clew("evaluate", "whole", "--code", "mine.py", "--json").out)
    assert (scores["part"], scores["accuracy"]) == ("valid", 100.0) and scores["loss"] < 0.4


def test_it_predicts_texts_files_tables_and_standard_input_alike(trained: Trained) -> None:
    arguments = ["predict", "whole", "--code", "mine.py"]
    good, bad = trained.run.task.answer_texts([GOOD, BAD])
    assert good > 0.5 > bad
    (trained.folder / "texts.txt").write_text(f"{GOOD}\n\n{BAD}\n", encoding="utf-8")
    (trained.folder / "texts.csv").write_text(f"text,other\n{GOOD},1\n{BAD},2\n", encoding="utf-8")
    lines = [f"{good:.4g}\t{GOOD}\n", f"{bad:.4g}\t{BAD}\n"]
    assert trained.clew(*arguments, GOOD).out == lines[0]
    assert trained.clew(*arguments, "texts.txt").out == f"{lines[0]}\n{lines[1]}"
    assert trained.clew(*arguments, "texts.csv").out == "".join(lines)
    assert trained.clew(*arguments, stdin=f"{GOOD}\n{BAD}\n").out == "".join(lines)
    objects = [json.loads(line) for line in trained.clew(*arguments, "texts.txt", "--json").out.splitlines()]
    assert [each["line"] for each in objects] == [1, 2, 3] and [each["text"] for each in objects] == [GOOD, "", BAD]
    assert objects[0]["score"] == pytest.approx(good, rel=1e-4) and objects[1]["score"] is None


@pytest.mark.slow
def test_the_commands_suggested_by_training_work(trained: Trained) -> None:
    messages = trained.output.err
    commands = [
        line.strip() for line in messages[messages.index("next:") :].removeprefix("next:").splitlines() if line.strip()
    ]
    assert [re.search(r"clew (\w+)", command)[1] for command in commands] == [
        "predict",
        "evaluate",
        "describe",
        "inspect",
        "train",
    ]  # type: ignore[index]
    for command in commands:
        echo, pipe, call = command.rpartition(" | ")
        _, *words = shlex.split(call)
        if words[0] == "inspect":
            continue  # serves until it is interrupted; the page is opened below
        result = trained.clew(*words, stdin=" ".join(shlex.split(echo)[1:]) if pipe else "")
        assert result.status == 0 and result.out, (command, result.err)


def test_it_is_served(trained: Trained) -> None:
    worker = Worker()
    run = trained.run
    app = Service([run], worker, wait=0.0).app()

    async def ask(path: str, body: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.post(path, json=body)

    try:
        answer = asyncio.run(ask("/predict", {"texts": [GOOD, BAD]}))
        refused = asyncio.run(ask("/predict", {"text": 3}))
    finally:
        assert worker.close(10.0)
    assert answer.status_code == 200, answer.text
    scores = [each["score"] for each in answer.json()["answers"]]
    assert scores == pytest.approx(run.task.answer_texts([GOOD, BAD]), rel=1e-5)
    assert refused.status_code == 400 and "text" in refused.json()["error"]


@pytest.mark.slow
def test_its_exported_program_gives_the_same_score(trained: Trained) -> None:
    assert trained.clew("export", "whole", "--to", "torch", "--out", "exported", "--code", "mine.py").status == 0
    task = trained.run.task
    pieces = task.reader.collate(task.encode_texts([GOOD, BAD]))
    scores = loaded(trained.folder / "exported", "torch")("logits", tensors_of(pieces))["logits"].sigmoid()
    assert scores.tolist() == pytest.approx(task.answer_texts([GOOD, BAD]), rel=1e-5)


@pytest.mark.parametrize("instrument", ["tokens", "levels", "attention", "errors", "curves"])
def test_instruments_accept_it(trained: Trained, instrument: str) -> None:
    text = [] if instrument in ("errors", "curves") else ["--text", GOOD]
    result = trained.clew("look", instrument, "whole", *text, "--code", "mine.py", "--json")
    assert result.status == 0, result.err
    facts = json.loads(result.out)
    if text and instrument != "attention":
        assert GOOD.split() == (facts["tokens"] if instrument == "tokens" else facts["halves"][0]["tokens"])


def test_an_unsuitable_instrument_gives_the_reason(trained: Trained) -> None:
    result = trained.clew("look", "next", "whole", "--text", GOOD, "--code", "mine.py")
    assert result.status == 2 and result.err.startswith(
        "clew: 'next' cannot look at this: whole predicts no next token; instruments"
    )


def test_the_page_lists_it_with_what_it_offers(trained: Trained) -> None:
    inspector = Inspector([trained.run])
    described = inspector.describe()
    [run] = described["runs"]
    assert (run["task"], run["use"]) == ("acceptability", "predict") and {"reads", "vectors"} <= set(run["offers"])
    fitting = {each["name"] for each in described["instruments"] if not each["reasons"]}
    assert {"tokens", "levels", "attention", "errors", "curves"} <= fitting and not {
        "next",
        "beam",
        "surprisal",
    } & fitting
    shown = inspector.look("levels", LookRequest(runs=(run["name"],), options={"text": GOOD}))
    assert shown["title"] == "Levels" and "<svg" in shown["html"]


@pytest.mark.slow
def test_the_page_opens_on_it(trained: Trained, browser: Any) -> None:
    command = [
        sys.executable,
        "-m",
        "clew.cli.main",
        "inspect",
        "whole",
        "--code",
        "mine.py",
        "--no-browser",
        "--device",
        "cpu",
    ]
    process = subprocess.Popen(command, cwd=trained.folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert address is not None
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        for view in ("glance", "tokens", "levels"):
            page.goto("about:blank")
            page.goto(f"{address[0]}#view={view}&run=whole&text={quote(GOOD)}")
            page.wait_for_selector(".drawn > *, .facts")
            page.wait_for_selector(".waiting", state="detached")
            assert page.query_selector(".refused") is None, view
        assert page.inner_text(".panel h2").startswith("Levels") and errors == []
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_it_satisfies_the_laws(fresh: Trained) -> None:
    result = fresh.clew("check", "mine.py")
    assert result.status == 0
    assert result.out == (
        "task 'acceptability': 7 of 7 laws hold: counts, exact means, padding, batched is single, json, best, on disk\n"
    )


def test_a_mean_that_ignores_the_mask_breaks_the_padding_law(fresh: Trained) -> None:
    broken = CODE.replace("self.mean(batch)", "self.hidden(batch).mean(1)")
    assert broken != CODE
    (fresh.folder / "broken.py").write_text(broken, encoding="utf-8")
    result = fresh.clew("check", "broken.py")
    assert result.status == 1
    assert "task 'acceptability': padding is broken\n    An example has the same loss alone" in result.out
    assert re.search(
        r"the sum of 'loss' is \S+ in one batch and \S+ in parts\n    smallest case: batch 1, length 1,", result.out
    )
    assert "5 of 7 laws hold: counts, exact means, json, best, on disk" in result.out


def test_an_error_in_the_users_file_names_its_line(fresh: Trained) -> None:
    broken = CODE.replace("fmean(self", "fmeen(self")
    (fresh.folder / "misspelt.py").write_text(broken, encoding="utf-8")
    line = next(number for number, text in enumerate(broken.splitlines(), start=1) if "fmeen(self" in text)
    result = fresh.clew("evaluate", "whole", "--code", "mine.py", "--code", "misspelt.py")
    assert result.status == 1
    assert result.err.endswith(
        f"clew: misspelt.py:{line}: NameError: name 'fmeen' is not defined; --debug shows the traceback\n"
    )


def test_the_error_without_the_code_tells_how_to_pass_it(fresh: Trained) -> None:
    for words in (["predict", "whole", GOOD], ["evaluate", "whole"], ["look", "tokens", "whole", "--text", GOOD]):
        result = fresh.clew(*words)
        assert result.status == 2
        assert "whole was trained with a user's code" in result.err and "pass --code whole/code.py" in result.err
    result = fresh.clew(*TRAIN)
    assert result.status == 2 and "unknown task 'acceptability'" in result.err and "--code" in result.err


def test_a_misspelt_task_gets_a_suggestion(trained: Trained) -> None:
    result = trained.clew(*[word.replace("acceptability", "acceptabilty") for word in TRAIN], "--code", "mine.py")
    assert result.status == 2 and "unknown task 'acceptabilty'; did you mean 'acceptability'?" in result.err


def test_a_label_without_a_target_is_rejected_with_its_place(trained: Trained) -> None:
    rows = "".join(f"text {number},{'no' if number == 7 else number % 2}\n" for number in range(20))
    (trained.folder / "odd.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    words = [word.replace("sentences.csv", "odd.csv") for word in TRAIN]
    result = trained.clew(*words, "--code", "mine.py", "--out", "odd")
    assert result.status == 2 and "odd.csv:9: Acceptability has no target for the label 'no'" in result.err
    assert "; correct the label, or leave the example out" in result.err
    shutil.rmtree(trained.folder / "odd", ignore_errors=True)
