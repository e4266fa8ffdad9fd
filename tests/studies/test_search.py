"""Searches: trials are runs, a killed search resumes to the same result, and only JSON is stored."""

import json
import shlex
import signal
from pathlib import Path

import pytest

import clew as library
from clew.core.errors import UserError
from clew.runs.folder.lock import locked
from clew.runs.folder.summary import summarise
from clew.studies.result import Search, build_result
from clew.studies.searching import TrialQueue, new_folder
from clew.studies.study import open_study, repair_journal
from clew.studies.trials import Evaluated, Outcome, TrialSpec
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused
from tests.cli.test_processes import one_thread
from tests.runs.small import lstm_settings
from tests.warm import Command, has_lines

pytest.importorskip("optuna")

SPACE = ["model.dim=4..16", "training.learning_rate=1e-4..1e-1", "model.cell=lstm,gru"]


@pytest.fixture
def search_settings(clew: Clew, tmp_path: Path) -> list[str]:
    """The settings of a small search; the current folder is a new one."""
    return [*lstm_settings(tmp_path, steps=8), "training.log=[]"]


def run_search(settings: list[str], trials: int, *, resume: bool = False, out: str = "runs/found") -> Search:
    fixed = [word for word in settings if not word.startswith("model.dim")]
    space = {"model.dim": (4, 16), "training.learning_rate": (1e-4, 1e-1), "model.cell": ["lstm", "gru"]}
    return library.search("text-lstm", space, *fixed, trials=trials, out=out, resume=resume, quiet=True)


def facts(result: Search) -> list[object]:
    return [(trial.number, trial.settings, trial.state, trial.value, trial.step) for trial in result.trials]


def without_dim(settings: list[str]) -> list[str]:
    return [word for word in settings if not word.startswith("model.dim")]


def test_trials_are_runs_and_the_best_has_the_lowest_validation_loss(search_settings: list[str], clew: Clew) -> None:
    result = clew("train", "text-lstm", *without_dim(search_settings), "--search", 3, *SPACE, "--plot", "search.svg")
    assert result.status == 0 and "model.dim: whole numbers from 4 to 16, linear scale" in result.err
    header, *rows = [line.split() for line in result.out.splitlines()]
    assert header == ["trial", "dim", "learning_rate", "cell", "valid", "loss", "steps", "time", "state", "note"]
    losses = [summarise(Path(f"runs/text-lstm-search/trial-{number}")).best["valid.loss"] for number in (1, 2, 3)]
    assert [float(row[4]) for row in rows] == [pytest.approx(loss, abs=1e-4) for loss in losses]
    assert [row[0] for row in rows if row[-1] == "best"] == [str(losses.index(min(losses)) + 1)]
    picture = Path("search.svg").read_text(encoding="utf-8")
    assert "Scores by training.learning_rate" in picture and "Scores by model.cell" in picture

    before = Path("runs/text-lstm-search/journal.jsonl").read_bytes()
    listed = clew("runs", "runs/text-lstm-search")
    assert Path("runs/text-lstm-search/journal.jsonl").read_bytes() == before
    assert listed.status == 0 and listed.out == result.out
    objects = [json.loads(line) for line in clew("runs", "runs/text-lstm-search", "--json").out.splitlines()]
    assert [each["value"] for each in objects] == losses and sum(each["is_best"] for each in objects) == 1

    command = next(line for line in result.err.splitlines() if line.startswith("next:")).removeprefix("next:")
    for arguments in (shlex.split(command)[1:], ["train", "runs/text-lstm-search/best.yaml"]):
        assert clew(*arguments, "--out", f"again-{len(arguments)}").status == 0
        assert summarise(Path(f"again-{len(arguments)}")).best["valid.loss"] == min(losses)


def test_a_study_stores_only_json(search_settings: list[str]) -> None:
    result = run_search(search_settings, 2)
    for path in result.folder.iterdir():
        if path.suffix in (".json", ".jsonl"):
            assert [
                json.loads(line)
                for line in (path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()])
            ]
    assert {path.name for path in result.folder.iterdir()} == {
        "study.json",
        "journal.jsonl",
        "best.yaml",
        "trial-1",
        "trial-2",
    }


def test_a_resumed_search_gives_the_same_trials(search_settings: list[str]) -> None:
    whole = run_search(search_settings, 3, out="whole")
    run_search(search_settings, 1, out="parts")
    parts = run_search(search_settings, 3, out="parts", resume=True)
    assert facts(parts) == facts(whole) and parts.best.number == whole.best.number
    assert repr(parts).startswith("<Search parts: text-lstm: 3 of 3 trials ended; the best is trial ")
    assert str(parts).count("\n") == 4 and "best" in str(parts)


def test_a_search_is_not_resumed_on_other_data(search_settings: list[str]) -> None:
    run_search(search_settings, 1, out="changed")
    story = Path(search_settings[0].partition("=")[2])
    story.write_text(story.read_text() + "and one more line .\n")
    with pytest.raises(UserError, match="story.txt changed since .* was started, .* not be compared; start a new"):
        run_search(search_settings, 2, out="changed", resume=True)


def test_trials_that_fall_behind_are_pruned(search_settings: list[str], clew: Clew) -> None:
    run_search(search_settings, 1)
    study = open_study(Path("runs/found"))
    study.requested = 9
    queue = TrialQueue(study, lambda text: None)
    for _ in range(5):  # the first five trials are trained in full
        spec = queue.next()
        assert spec is not None and not queue.record_evaluation(spec, Evaluated(4, 1.0, "loss", 1.0))
        queue.record_outcome(spec, Outcome("finished", 1.0, "loss", 1.0, 8, 8))
    spec = queue.next()
    assert spec is not None
    assert queue.record_evaluation(spec, Evaluated(4, 9.0, "loss", 9.0))


def test_a_pruned_trial_is_a_stopped_run(search_settings: list[str], clew: Clew) -> None:
    from clew.studies.trials import train_trial
    from clew.training.report import Silence

    outcome = train_trial(
        TrialSpec(1, "text-lstm", tuple(search_settings), Path("trial-1")), lambda last: last.step == 4, Silence()
    )
    assert (outcome.state, outcome.step, outcome.steps, outcome.measure) == ("pruned", 4, 8, "loss")
    assert summarise(Path("trial-1")).state == "stopped"


def test_a_trial_without_a_finite_score_fails_and_is_never_the_best(search_settings: list[str]) -> None:
    run_search(search_settings, 1)
    study = open_study(Path("runs/found"))
    study.requested = 2
    queue = TrialQueue(study, lambda text: None)
    spec = queue.next()
    assert spec is not None
    queue.record_outcome(spec, Outcome("finished", float("nan"), "loss", float("nan"), 8, 8))
    result = build_result(study)
    assert result.trials[1].state == "failed" and result.best.number == 1


def test_three_failures_from_the_start_end_a_search(search_settings: list[str], tmp_path: Path) -> None:
    study = open_study(
        new_folder("text-lstm", [*without_dim(search_settings), *SPACE], 9, tmp_path / "hopeless", None, print)
    )
    queue = TrialQueue(study, lambda text: None)
    for step in (11, 12, 13):
        spec = queue.next()
        assert spec is not None
        queue.record_outcome(spec, Outcome("failed", reason=f"no finite gradient at step {step}"))
    sentence = (
        "the first 3 trials failed, the last with the error: no finite gradient at step 13; correct the settings, and"
        " start a new search"
    )
    with pytest.raises(UserError, match=sentence):
        queue.next()


def test_a_search_with_dying_processes_suggests_fewer_jobs(search_settings: list[str], tmp_path: Path) -> None:
    study = open_study(
        new_folder("text-lstm", [*without_dim(search_settings), *SPACE], 9, tmp_path / "killed", None, print)
    )
    queue = TrialQueue(study, lambda text: None)
    for _ in range(2):
        spec = queue.next()
        assert spec is not None
        queue.record_outcome(
            spec, Outcome("failed", reason="its process ended twice (signal 9); it may need more memory than there is")
        )
    with pytest.raises(
        UserError, match="the first 2 trials failed, .*; lower jobs or free memory, and start a new search"
    ):
        queue.next()


def test_a_diverging_trial_fails_and_the_next_one_is_trained(search_settings: list[str], clew: Clew) -> None:
    more = [
        "training.optimiser=sgd",
        "training.clip_norm=null",
        "training.steps=12",
        "training.learning_rate=1e38,0.001",
    ]
    result = clew("train", "text-lstm", *search_settings, *more, "--search", 2)
    assert result.status == 0 and "failed: 10 steps in a row had no finite gradient" in result.err
    assert sorted(line.split()[-1] == "best" for line in result.out.splitlines()[1:]) == [False, True]


def test_a_trial_is_never_drawn_twice(search_settings: list[str]) -> None:
    space = {"model.dim": (4, 5), "model.cell": ["lstm", "gru"]}
    result = library.search("text-lstm", space, *without_dim(search_settings), "training.steps=1", trials=4, quiet=True)
    assert len({tuple(trial.settings.items()) for trial in result.trials}) == 4
    with pytest.raises(
        UserError,
        match=r"these values have only 4 combinations, fewer than the 7 requested trials; request fewer, or train each"
        r" combination once with `clew\.train\(\.\.\.\)`$",
    ):
        library.search("text-lstm", space, *without_dim(search_settings), trials=7)


def test_a_truncated_journal_is_repaired(search_settings: list[str]) -> None:
    whole = facts(run_search(search_settings, 2))
    journal = Path("runs/found/journal.jsonl")
    with journal.open("a", encoding="utf-8") as file:
        file.write('{"op_code": 4, "worker')
    Path("runs/found/journal.jsonl.lock").touch()
    assert facts(run_search(search_settings, 2, resume=True)) == whole
    journal.write_text("nonsense\n" + journal.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(
        UserError, match=r"journal.jsonl:1: this line is not JSON, so the journal is damaged; start a new search"
    ):
        repair_journal(Path("runs/found"))


def test_a_search_without_finished_trials_has_no_best_one(search_settings: list[str], tmp_path: Path) -> None:
    study = open_study(
        new_folder("text-lstm", [*without_dim(search_settings), *SPACE], 2, tmp_path / "found", None, print)
    )
    with pytest.raises(UserError, match="no trial of .*found has finished yet, so there is no best one; resume the"):
        _ = build_result(study).best


def test_a_damaged_search_folder_is_rejected(search_settings: list[str], tmp_path: Path) -> None:
    folder = new_folder("text-lstm", [*without_dim(search_settings), *SPACE], 2, tmp_path / "found", None, print)
    with pytest.raises(UserError, match="is not a search .it has no study.json.; pass the folder of a search"):
        open_study(tmp_path)
    journal = (folder / "journal.jsonl").read_bytes()
    for line in ("{}", '{"op_code": 99}'):
        (folder / "journal.jsonl").write_text(f"{line}\n")
        with pytest.raises(
            UserError,
            match=r"journal.jsonl cannot be read as Optuna's journal \(.*\); start a new search",
        ):
            open_study(folder)
    (folder / "journal.jsonl").unlink()
    with pytest.raises(
        UserError, match="found has no journal.jsonl, because it is incomplete or not a search; start a new search"
    ):
        open_study(folder)
    (folder / "journal.jsonl").write_bytes(journal)
    content = json.loads((folder / "study.json").read_text())
    without_code = {name: value for name, value in content.items() if name != "code"}
    (folder / "study.json").write_text(json.dumps(without_code))
    with pytest.raises(UserError, match="was not written by this version of clew"):
        open_study(folder)
    for space in ({}, {**content["space"], "axes": [{"field": 5, "values": ["a"]}]}):
        (folder / "study.json").write_text(json.dumps({**content, "space": space}))
        with pytest.raises(
            UserError, match="study.json has no valid search space, as it was changed; start a new search"
        ):
            open_study(folder)


def test_a_data_file_below_an_unknown_home_is_rejected(search_settings: list[str], clew: Clew) -> None:
    settings = [text for text in without_dim(search_settings) if not text.startswith("data.train=")]
    assert_refused(
        clew("train", "text-lstm", *settings, "data.train=~nobody-here/a.txt", "--search", 2, *SPACE),
        "no such file: ~nobody-here/a.txt; no user has that name; if a file name begins with ~, write ./~",
    )


def test_a_search_under_torchrun_is_rejected(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.studies.searching.world_size", lambda: 2)
    assert_refused(
        clew("train", "text-lstm", "--search", 2, *SPACE),
        "a search starts its own processes and cannot run under torchrun; start it without torchrun, with --jobs 2 to"
        " train two trials at once",
    )


def test_mistakes_in_a_search_are_reported_in_one_line(search_settings: list[str], clew: Clew) -> None:
    def refused(*arguments: object, sentence: str) -> None:
        assert_refused(clew("train", "text-lstm", *arguments), sentence)

    refused(
        "model.dim=4..16",
        sentence="model.dim=4..16 is a range, which needs a search; add --search N, such as",
    )
    refused(
        "--jobs", 2, sentence="--jobs is only for a search; add --search N, such as --search 20, or leave --jobs out"
    )
    refused(
        "--search",
        0,
        *SPACE,
        sentence="the number of trials (0) must be at least 1; set it, for example with --search 20",
    )
    refused(
        "--search",
        2,
        *SPACE,
        "--overwrite",
        sentence="--overwrite replaces one run, but a search writes a folder of several; leave",
    )
    refused("--search", "many", *SPACE, sentence="--search takes a whole number, not 'many'; for example --search 20")
    refused(
        "--search",
        2,
        "--jobs",
        0,
        *SPACE,
        sentence="--jobs (0), the number of trials that are trained at once, must be from 1 to 64",
    )
    refused(
        "--search", 2, *SPACE, "--plot", "a.bmp", sentence="--plot (a.bmp) must end in .html, .svg, .json, .png or .pdf"
    )
    refused(
        "--search",
        2,
        *SPACE,
        "--plot",
        "no/a.svg",
        sentence="no such folder for --plot: no; create it first",
    )
    Path("plots.svg").mkdir()
    refused(
        "--search",
        2,
        *SPACE,
        "--plot",
        "plots.svg",
        sentence="--plot (plots.svg) is a folder; give the name of a file",
    )
    refused(
        "--search",
        2,
        *SPACE,
        "--resume",
        sentence="there is no search of text-lstm with these settings in runs/; leave --resume out",
    )
    assert_refused(
        clew("train", "finetune-classify", "--search", 2, "training.learning_rate=1e-4..1e-3"),
        "finetune-classify needs ",
    )
    assert not Path("runs").exists()
    hopeless = clew("train", "classify", "--search", 9, "model.dim=4..16", "--out", "hopeless")
    message = (
        "clew: the first 2 trials failed, the last with the error: there is no training data; name your labelled texts"
    )
    assert hopeless.status == 2 and hopeless.err.splitlines()[-1].startswith(message)
    run_search(search_settings, 2)
    refused(
        "--search",
        2,
        *SPACE,
        "--out",
        "runs/found",
        sentence="runs/found is already a search; resume it with --resume, or",
    )
    refused(
        "--search",
        1,
        "--out",
        "runs/found",
        "--resume",
        sentence="runs/found already has 2 trials, but --search 1 requests fewer; request at least 2",
    )
    refused(
        "--search",
        2,
        *SPACE,
        "--out",
        "runs/found",
        "--resume",
        sentence="a resumed search keeps its settings, but these changed: ",
    )
    refused("--out", "runs/found", "--resume", sentence="runs/found is a search; resume it with --search N --resume")
    assert_refused(
        clew("train", "text-gpt", "--search", 2, "--out", "runs/found", "--resume"),
        "runs/found is a search of text-lstm, not of text-gpt",
    )
    with locked(Path("runs/found")):
        refused("--search", 3, "--out", "runs/found", "--resume", sentence="runs/found is being written by process")
    Path("runs/found/study.json").write_text("{}")
    refused(
        "--search",
        3,
        "--out",
        "runs/found",
        "--resume",
        sentence="runs/found/study.json was not written by this version of clew"
        "; use the version that wrote it, or start a new search",
    )
    assert_refused(
        clew("runs", "runs", "--plot", "a.svg"), "--plot is for a search, but runs is none; give the folder of one"
    )


def test_the_error_without_optuna_tells_how_to_install_it(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.studies import study

    monkeypatch.setattr(study, "find_spec", lambda name: None)
    assert_refused(
        clew("train", "text-lstm", "--search", 2, *SPACE),
        "a search needs optuna, which is not installed; run `pip install 'clew[search]'`",
    )


def test_an_unwritable_folder_is_reported_in_one_sentence(search_settings: list[str], clew: Clew) -> None:
    Path("file").touch()
    result = clew("train", "text-lstm", *without_dim(search_settings), "--search", 2, *SPACE, "--out", "file/search")
    assert_refused(
        result, "cannot write the search to file/search: Not a directory; free space there, or choose another folder"
    )


@pytest.mark.slow
def test_ctrl_c_saves_the_trial_and_the_search_resumes_to_the_same_end(
    search_settings: list[str],
    clew: Clew,
    tmp_path: Path,
) -> None:
    more = [*without_dim(search_settings), "training.steps=300", "training.evaluate_every=100", *SPACE]
    whole = clew("train", "text-lstm", *more, "--search", 3, "--out", "whole")
    assert whole.status == 0
    second = tmp_path / "runs" / "text-lstm-search" / "trial-2" / "metrics.jsonl"
    status, out, err = Command(["train", "text-lstm", *more, "--search", "3"], tmp_path).stop(
        signal.SIGINT, lambda: has_lines(second, 30)
    )
    assert status == 130 and "Traceback" not in err and "interrupted" in out
    message = err.splitlines()[-1]
    assert message.startswith("clew: stopped; 1 of 3 trials ended; resume with `clew train text-lstm --search 3 --out")
    with one_thread():
        assert clew(*shlex.split(message.split("`")[1])[1:]).status == 0
    both = [build_result(open_study(Path(folder))) for folder in ("whole", "runs/text-lstm-search")]
    assert facts(both[0]) == facts(both[1]) and both[1].trials[1].note.startswith("resumed from step ")


@pytest.mark.slow
def test_two_trials_at_once_are_killed_and_resumed(search_settings: list[str], clew: Clew, tmp_path: Path) -> None:
    more = [*without_dim(search_settings), "training.steps=300", "training.evaluate_every=100", *SPACE]
    first = tmp_path / "runs" / "text-lstm-search" / "trial-1" / "metrics.jsonl"
    arguments = ["train", "text-lstm", *more, "--search", "4", "--jobs", "2"]
    status, _, err = Command(arguments, tmp_path).stop(signal.SIGKILL, lambda: has_lines(first, 20))
    assert status == -signal.SIGKILL and "trial 2 of 4" in err
    resumed = clew("train", "text-lstm", "--search", 4, "--jobs", 2, "--resume")
    assert resumed.status == 0, resumed.err
    search_result = build_result(open_study(Path("runs/text-lstm-search")))
    assert {trial.state for trial in search_result.trials} <= {"finished", "pruned"} and len(search_result.trials) == 4
    assert any("resumed from step" in trial.note or "started again" in trial.note for trial in search_result.trials)


@pytest.mark.slow
def test_ctrl_c_reaches_trials_in_other_processes(search_settings: list[str], clew: Clew, tmp_path: Path) -> None:
    more = [*without_dim(search_settings), "training.steps=100000", "training.evaluate_every=50000", *SPACE]
    first = tmp_path / "runs" / "text-lstm-search" / "trial-1" / "metrics.jsonl"
    arguments = ["train", "text-lstm", *more, "--search", "4", "--jobs", "2"]
    status, _, err = Command(arguments, tmp_path).stop(signal.SIGINT, lambda: has_lines(first, 20))
    assert status == 130 and err.splitlines()[-1].startswith(
        "clew: stopped; 0 of 4 trials ended; resume with `clew train text-lstm --search 4 --jobs 2"
    )
    assert next(Path("runs/text-lstm-search/trial-1/checkpoints").glob("step-*"), None) is not None


def test_a_search_with_user_code_is_listed_without_it(
    search_settings: list[str],
    clew: Clew,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from clew.layers.cells import CELLS

    Path("cell.py").write_text(
        "from clew.layers.cells import CELLS\n\nCELLS['own'] = type('Own', (CELLS['gru'],), {})\n", encoding="utf-8"
    )
    result = clew(
        "train",
        "text-lstm",
        *without_dim(search_settings),
        "model.cell=own",
        "model.dim=4,5",
        "--search",
        2,
        "--code",
        "cell.py",
    )
    assert result.status == 0 and result.err.splitlines()[-1].endswith(" --code cell.py")
    monkeypatch.delitem(CELLS, "own")
    assert clew("runs", "runs/text-lstm-search").out == result.out
    other = clew("train", "text-lstm", "--search", 2, "--resume")
    assert_refused(other, "runs/text-lstm-search was started with another file as --code; pass the same file")


def test_a_search_without_pruning_tells_the_reason(search_settings: list[str], clew: Clew) -> None:
    result = clew(
        "train", "text-lstm", *without_dim(search_settings), "training.steps=2", "model.dim=4,5", "--search", 1
    )
    assert result.err.startswith(
        "no trial can be pruned, because its first evaluation is its last (training.evaluate_every=4, training.steps=2)"
    )
