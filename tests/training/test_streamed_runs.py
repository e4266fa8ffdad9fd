"""Runs that train on a stream: resumed bit for bit, with any number of processes, from files and from Python."""

import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pytest
import torch

import clew
from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.tasks.learnings import streamed
from clew.training.checkpoints import MODEL, TRAINING, checkpoint_folders, read_group
from clew.training.problems import prepare_problem
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.runs.small import GPT, LSTM, TEXT
from tests.training.group import train_together
from tests.training.test_shares import tensors
from tests.warm import Command, has_lines

LEAST = streamed.LEAST
STREAM = ["data.stream=true", "data.shuffle_window=20", "training.log_every=1"]
KINDS = {
    "windows": ("text-gpt", [*GPT]),
    "apart": ("text-gpt", [*GPT, "text.tokenizer=bpe", "text.size=300", "training.documents=apart"]),
    "carried": ("text-lstm", [*LSTM]),
    "varied": ("text-lstm", [*LSTM, "training.vary_length=true"]),
}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(streamed, "LEAST", 16)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def shards(folder: Path, documents: int = 24) -> Path:
    """Write three files of JSON lines with several shuffle windows of documents each."""
    folder.mkdir(exist_ok=True)
    for shard in range(3):
        rows = [{"text": f"{shard} and {number}: {TEXT[number * 3 : number * 3 + 150]}"} for number in range(documents)]
        (folder / f"{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def settings(folder: Path, kind: str = "windows", steps: int = 12) -> tuple[str, list[str]]:
    recipe, assignments = KINDS[kind]
    return recipe, [*assignments, *STREAM, f"data.train={shards(folder / 'shards')}", f"training.steps={steps}"]


class Stopper(Silence):
    def __init__(self, step: int = -1):
        self.at = step
        self.messages: list[str] = []

    def say(self, text: str) -> None:
        self.messages.append(text)

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        if record.step == self.at:
            signal.raise_signal(signal.SIGINT)


def assert_same_weights(first: Path, second: Path) -> None:
    actual, expected = read_weights(first / "model.safetensors"), read_weights(second / "model.safetensors")
    assert all(torch.equal(value, expected[name]) for name, value in actual.items())


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_from_any_position_gives_the_following_batches(kind: str, tmp_path: Path) -> None:
    batches = prepare_problem(config_of(*settings(tmp_path, kind))).batches
    batches_seen, places = [], []
    for epoch, number, batch in batches.ahead(0, 0):
        batches_seen.append((epoch, number, batch))
        places.append(batches.place(epoch, number + 1))
        if epoch == 2:
            break
    assert len({place for place in places if place is not None}) > 4, "there are several windows"
    per_epoch = sum(epoch == 0 for epoch, _, _ in batches_seen)
    assert [number for epoch, number, _ in batches_seen if epoch == 0] == list(range(per_epoch))
    for start in range(0, len(batches_seen) - 4, 29):
        epoch, number, _ = batches_seen[start]
        again = list(islice(batches.ahead(epoch, number + 1, place=json.loads(json.dumps(places[start]))), 3))
        for (*position, batch), (*resumed_position, resumed_batch) in zip(
            batches_seen[start + 1 : start + 4], again, strict=True
        ):
            assert position == resumed_position and batch.fresh == resumed_batch.fresh
            assert all(torch.equal(*pair) for pair in zip(tensors(batch), tensors(resumed_batch), strict=True))


@pytest.mark.parametrize("kind", ["apart", "carried"])
def test_a_process_has_its_rows_of_the_full_batch(kind: str, tmp_path: Path) -> None:
    batches = prepare_problem(config_of(*settings(tmp_path, kind))).batches
    whole = [batch for _, _, batch in islice(batches.ahead(0, 0), 9)]
    for part in range(3):
        own = [batch for _, _, batch in islice(batches.ahead(0, 0, part, 3), 9)]
        for batch, full in zip(own, whole, strict=True):
            assert all(
                torch.equal(*pair) for pair in zip(tensors(batch), tensors(cut_rows(full, 3)[part]), strict=True)
            )


@pytest.mark.parametrize(("kind", "step"), [("windows", 7), ("carried", 5), ("apart", 9)])
def test_a_run_stopped_within_a_window_resumes_bit_for_bit(kind: str, step: int, tmp_path: Path) -> None:
    recipe, assignments = settings(tmp_path, kind)
    assignments = [*assignments, "model.dropout=0.2"]
    run_recipe(recipe, assignments, out=Path("straight"))
    with pytest.raises(Interrupted):
        run_recipe(recipe, assignments, out=Path("stopped"), report=Stopper(step))
    place = json.loads((checkpoint_folders(Path("stopped"))[0] / TRAINING).read_text())["place"]
    assert len(place) == 4
    run_recipe(recipe, assignments, out=Path("stopped"), resume=True)
    assert_same_weights(Path("straight"), Path("stopped"))


def test_an_epoch_has_about_as_many_steps_as_the_stream_has_batches(tmp_path: Path) -> None:
    recipe, assignments = settings(tmp_path)
    assignments = [word for word in assignments if not word.startswith("training.steps=")]
    listener = Stopper()
    run = run_recipe(
        recipe, [*assignments, "training.epochs=1", "training.evaluate_every=1000"], out=Path("run"), report=listener
    )
    batches = prepare_problem(config_of(recipe, assignments)).batches
    counted = sum(1 for _ in takewhile(lambda position: position[0] == 0, batches.ahead(0, 0)))
    assert run.step == pytest.approx(counted, rel=0.1)
    assert f"1 epochs are about {run.step} steps" in listener.messages
    assert any(
        message.startswith("the vocabulary is learnt from the first 10,000,000 characters")
        for message in listener.messages
    )
    assert any(message.startswith("the valid split is the first ") for message in listener.messages)


def test_separate_validation_files_leave_no_text_held_out(tmp_path: Path) -> None:
    recipe, assignments = settings(tmp_path)
    (tmp_path / "valid.txt").write_text(TEXT)
    parts = prepare_problem(config_of(recipe, [*assignments, "data.valid=valid.txt"])).notes
    assert not any("the valid part is" in note for note in parts)
    run_recipe(recipe, [*assignments, "data.valid=valid.txt"], out=Path("run"))


def test_missing_or_changed_shards_are_reported_on_resuming(tmp_path: Path) -> None:
    recipe, assignments = settings(tmp_path)
    with pytest.raises(Interrupted):
        run_recipe(recipe, assignments, out=Path("run"), report=Stopper(5))
    shard = tmp_path / "shards" / "2.jsonl"
    content = shard.read_text()
    for change in (shard.unlink, lambda: shard.write_text(content.replace("2 and 23", "2 AND 23"))):
        change()
        with pytest.raises(UserError) as caught:
            run_recipe(recipe, assignments, out=Path("run"), resume=True)
        sentence = str(caught.value)
        assert sentence.startswith("cannot resume from ") and "then 3 files, " in sentence and len(sentence) < 500
        assert "restore the earlier training text, or start a new run" in sentence
    shard.write_text(content)
    run_recipe(recipe, assignments, out=Path("run"), resume=True)


def test_a_malformed_line_in_a_shard_ends_training_with_its_place(tmp_path: Path) -> None:
    recipe, assignments = settings(tmp_path, steps=200)
    shard = tmp_path / "shards" / "1.jsonl"
    lines = shard.read_text().splitlines()
    shard.write_text("\n".join([*lines[:20], lines[20][:30], *lines[21:]]))
    assignments = [word for word in assignments if not word.startswith("data.train=")]
    with pytest.raises(UserError, match=r"1\.jsonl:21: this is not JSON: .*; correct the line, and continue with re"):
        run_recipe(recipe, [*assignments, "data.train=shards"], out=Path("run"))


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (
            ["data.corpus=tinyshakespeare"],
            "data.stream=true is for your own files; name them with data.corpus=null data.train=FOLDER, or",
        ),
        ([], "data.stream=true needs the files to stream; name them with data.train=FOLDER"),
        (
            ["data.train=empty"],
            "empty: no .txt or .jsonl file with text in this folder or below; name a file, or rename the text",
        ),
        (
            ["data.train=short.txt"],
            "short.txt: all documents would be held out, with none left for training; use more text, or give data.",
        ),
        (
            ["data.train=short.txt", "data.valid=short.txt"],
            "the text has 15 tokens, fewer than one window of 16 and the token after it; give",
        ),
    ],
)
def test_data_that_cannot_be_streamed_are_rejected(assignments: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "short.txt").write_text("one short line")
    with pytest.raises(UserError) as caught:
        run_recipe("text-gpt", [*GPT, *STREAM, *assignments], out=Path("run"))
    assert str(caught.value).startswith(sentence)
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_task_on_documents_has_no_stream(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown field 'stream' of data"):
        config_of("text-bert", [*STREAM, "data.train=x.jsonl"])


def pages() -> Iterator[dict[str, str]]:
    return ({"text": f"page {number}: {TEXT[number : number + 300]}"} for number in range(60))


def test_a_python_function_can_be_streamed_and_resumed(tmp_path: Path) -> None:
    assignments = [*GPT, "data.shuffle_window=20", "training.steps=12", "training.evaluate_every=6"]
    clew.train("text-gpt", *assignments, data=pages, out="straight", quiet=True)
    clew.train(
        "text-gpt", *[word.replace("steps=12", "steps=6") for word in assignments], data=pages, out="half", quiet=True
    )
    run = clew.train("text-gpt", *assignments, data=pages, out="half", resume=True, quiet=True)
    assert run.config.data.train == "iterable:train" and run.config.data.stream
    assert_same_weights(Path("straight"), Path("half"))
    with pytest.raises(
        UserError, match="data= is a generator, which can be read only once, but a stream .* pass the function"
    ):
        clew.train("text-gpt", *GPT, "data.stream=true", data=pages(), out="once", quiet=True)
    with pytest.raises(
        UserError, match="data= is a function, which only language models read as a stream; pass a list"
    ):
        clew.train("text-bert", data=pages, out="other", quiet=True)


def test_epochs_of_a_long_iterable_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.data.streams.iterables.MOST_COUNTED", 1000)
    Path("valid.txt").write_text(TEXT)
    assignments = [word for word in GPT if not word.startswith("training.steps=")]
    assignments += ["data.test_fraction=0"]
    with pytest.raises(
        UserError,
        match="training__epochs needs data of known size, and the size of a long iterable is unknown; set"
        " training__steps instead",
    ):
        clew.train(
            "text-gpt",
            *assignments,
            "training.epochs=2",
            data={"train": pages, "valid": Path("valid.txt")},
            out="run",
            quiet=True,
        )


def test_a_process_ends_when_another_cannot_continue_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "sum_over_processes", lambda failures: failures + 1)
    with pytest.raises(
        UserError,
        match="another process could not read the stream any further and has reported why; fix that, then continue with"
        " resume=True",
    ):
        next(streamed.gathered_windows(iter([])))  # type: ignore[arg-type]


def test_a_changed_iterable_is_reported_on_resuming() -> None:
    assignments = [*GPT, "training.steps=4"]
    clew.train("text-gpt", *assignments, data=pages, out="run", quiet=True)
    with pytest.raises(
        UserError, match="the training text changed since it was written .then an iterable, .*; now an iterable, "
    ):
        clew.train(
            "text-gpt",
            *GPT,
            "training.steps=8",
            data=lambda: islice(pages(), 5, None),
            out="run",
            resume=True,
            quiet=True,
        )


@pytest.mark.slow
def test_two_processes_learn_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "LEAST", LEAST)  # the value in separate processes
    recipe, assignments = settings(tmp_path, "carried", steps=10)
    assignments = [*assignments, "training.batch_size=5", "model.dropout=0"]
    run_recipe(recipe, assignments, out=Path("one"))
    train_together(
        2, tmp_path, [(assignments, "two", False), ([*assignments, "training.steps=6"], "then-one", False)], recipe
    )
    run_recipe(recipe, assignments, out=Path("then-one"), resume=True)
    for name in ("two", "then-one"):
        for (key, value), last in zip(
            read_group(checkpoint_folders(Path(name))[0], MODEL).items(),
            read_group(checkpoint_folders(Path("one"))[0], MODEL).values(),
            strict=True,
        ):
            torch.testing.assert_close(value, last, rtol=1e-5, atol=1e-6, msg=f"{name} {key}")


def encoders_in(folder: Path) -> list[str]:
    """Encoding processes of clew whose working directory is this folder."""
    processes = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if (
                    Path(os.readlink(process / "cwd")) == folder
                    and "encoding_processes" in (process / "cmdline").read_text()
                ):
                    processes.append(process.name)
            except OSError:
                continue
    return processes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_process_behind_and_the_run_resumes_bit_for_bit(
    number: signal.Signals, tmp_path: Path
) -> None:
    recipe, assignments = settings(tmp_path, steps=60)
    assignments = [*assignments, "text.workers=2", "model.dropout=0.2", "model.dim=64", "training.save_every=5"]
    metrics = tmp_path / "broken" / "metrics.jsonl"
    encoders: list[str] = []

    def is_time() -> bool:
        encoders.extend(encoders_in(tmp_path))
        return bool(encoders) and has_lines(metrics, 23)

    code, _, error = Command(["train", recipe, *assignments, "--out", "broken"], tmp_path).stop(number, when=is_time)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}[number], error
    deadline = time.monotonic() + 10
    while encoders_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert encoders_in(tmp_path) == []
    assert Command(["train", recipe, *assignments, "--out", "broken", "--resume"], tmp_path).wait()[0] == 0
    assert Command(["train", recipe, *assignments, "text.workers=2", "--out", "straight"], tmp_path).wait()[0] == 0
    assert_same_weights(tmp_path / "straight", tmp_path / "broken")
    losses = [[record.get("train.loss") for record in read_metrics(tmp_path / name)] for name in ("straight", "broken")]
    assert losses[0] == losses[1]
