"""Fuzzed configs and data files through the command line: `clew train` must end with status 0 or 2 and without a
traceback."""

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.faults import configs, texts
from benchmarks.faults.trials import MEMORY, REJECTED, Fault, Result, Runner, in_this_process, run_trials
from clew.cli.main import main
from clew.text.train import train_character

ROOT = Path(__file__).parents[2]
LONGEST_ARGUMENT = 100_000
STORY = "she tied one end of the thread to the door and went in.\n" * 40
SMALL = ("training.batch_size=2", "training.length=4", "training.schedule=constant", "device=cpu")
LAST = ("training.steps=1", "training.compile=false", "decoding.max_new=8", "data.corpus=null")
"""Settings that fuzzed settings cannot override, because a trial would take hours."""


class CompletedProcess(NamedTuple):
    status: int
    out: bytes
    err: bytes


Call = Callable[[list[bytes], Path], CompletedProcess]


def run(count: int, seed: int, runner: Runner = in_this_process, call: Call | None = None) -> Result:
    fault = Fault("fuzzed commands", draw, partial(attempt, call=call or by_process), describe, smaller, seconds=120.0)
    return run_trials(fault, count, seed, runner)


def attempt(case: Any, call: Call) -> str:
    with tempfile.TemporaryDirectory(prefix="clew-commands-") as name:
        folder = Path(name)
        (folder / "story.txt").write_text(STORY, encoding="utf-8")
        process = call(arguments(case, folder), folder)
    err = process.err.decode("utf-8")
    assert "Traceback" not in err, f"a traceback: {err.splitlines()[-1]}"
    last_line = err.splitlines()[-1] if err else ""
    assert process.status in (0, 2), f"status {process.status}: {last_line}"
    assert process.status == 0 or last_line.startswith("clew: "), f"no message: {last_line}"
    return REJECTED if process.status else "trained a step"


def arguments(case: Any, folder: Path) -> list[bytes]:
    """Return `clew train ...`, after writing the files that it reads into the folder."""
    settings: tuple[str, ...]
    if isinstance(case, texts.Case):
        texts.write(case, folder / "texts")
        text_settings = [f"text.{name}={json.dumps(value)}" for name, value in case.text.items()]
        path = texts.train_path(case, folder / "texts").relative_to(folder)
        recipe, settings = (
            "text-lstm",
            (
                "model.dim=4",
                "model.embedding_dim=4",
                *text_settings,
                f"data.train={path}",
                f"training.batching={case.batching}",
            ),
        )
    else:
        recipe, settings = (
            case.recipe,
            ("data.corpus=null", "data.train=story.txt", "training.batching=windows", *case.assignments),
        )
        if case.form == "yaml":
            (folder / "run.yaml").write_bytes(configs.yaml_of(case))
            recipe = "run.yaml"
        if case.form == "json":
            train_character(STORY).save(folder / "run" / "vocabulary")
            (folder / "run" / "config.json").write_bytes(
                configs.json_of(replace(case, assignments=(*SMALL, *settings, *LAST)))
            )
            return [b"train", recipe.encode(), b"training.steps=1", b"--out", b"run", b"--resume"]
    words = ["train", recipe, *SMALL, *settings, *LAST, "--out", "run"]
    return [
        word.replace("\0", "").encode("utf-8", "surrogateescape" if isinstance(case, texts.Case) else "surrogatepass")
        for word in words
    ]


def by_process(words: list[bytes], folder: Path) -> CompletedProcess:
    """Run clew in a process, as a user does."""
    completed = subprocess.run(
        [sys.executable, "-m", "clew", *(word[:LONGEST_ARGUMENT] for word in words)],
        cwd=folder,
        env={**os.environ, **own_environment(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    return CompletedProcess(completed.returncode, completed.stdout, completed.stderr)


def by_call(words: list[bytes], folder: Path) -> CompletedProcess:
    """Run clew in this process, which saves the time of importing torch."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with inside(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([os.fsdecode(word) for word in words])
        except SystemExit as error:
            status = int(error.code or 0)
    return CompletedProcess(status, *(stream.buffer.getvalue() for stream in (out, err)))  # type: ignore[attr-defined]


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    environment, working_folder = dict(os.environ), Path.cwd()
    os.environ.update(own_environment(folder))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(working_folder)
        os.environ.clear()
        os.environ.update(environment)


def own_environment(folder: Path) -> dict[str, str]:
    """Return variables that give a trial its own home and cache."""
    return {"CLEW_CACHE": str(folder / "cache"), "HOME": str(folder)}


def draw(random: Random) -> Any:
    """Draw a config for a small model, or a data file that does not change while it is read."""
    if random.random() < 0.5:
        return replace(texts.draw(random), event="", after="")
    case = configs.draw(random)
    edits = tuple(edit for edit in case.edits if edit[0] != "training.compile")  # compiling takes a minute
    return replace(case, edits=edits, assignments=case.assignments or tuple(configs.smallest(case.recipe)))


def describe(case: Any) -> str:
    return (texts if isinstance(case, texts.Case) else configs).describe(case)


def smaller(case: Any) -> Iterator[Any]:
    return (texts if isinstance(case, texts.Case) else configs).smaller(case)
