import errno
import json
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.core.identity import Known
from clew.training.backward import StepOptions
from clew.training.checkpoints import (
    TrainingState,
    checkpoint_folders,
    find_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from clew.training.loop import train
from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS, adamw
from clew.training.records import Progress
from clew.training.schedules import Plateau
from tests.thread.models import batches_of, chunks_of, lines_batch, lstm

IDENTITY = {name: Known({"digest": name}, name[0]) for name in ("model", "tokenizer", "data", "batching")}


def training_of(optimiser: str = "adamw", **identity: Known) -> TrainingState:
    task = lstm()
    optimiser_of_task = OPTIMISERS[optimiser](task.parameters(), 0.01)
    return TrainingState(task, optimiser_of_task, Plateau(9, patience=1), Best(3), Progress(), {**IDENTITY, **identity})


def advance(training: TrainingState, steps: int) -> None:
    batches = batches_of(chunks_of(lines_batch(training.task), 8))
    for _ in train(
        training.task,
        batches,
        training.optimiser,
        training.schedule,
        StepOptions(seed=1, carry=True),
        steps=steps,
        progress=training.progress,
    ):
        pass


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, TrainingState]:
    """A run's folder with checkpoints at steps 2 and 4, and the training state that wrote them."""
    training = training_of()
    for step in (2, 4):
        advance(training, step)
        for value in (2.0, 3.0):
            training.schedule.observe(value)
            training.best.observe(value, step)
        save_checkpoint(tmp_path, training)
    return tmp_path, training


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_checkpoint_survives_a_round_trip_bit_for_bit(tmp_path: Path, optimiser: str) -> None:
    first, second = training_of(optimiser), training_of(optimiser)
    advance(first, 3)
    first.schedule.observe(2.0)
    first.schedule.observe(3.0)
    first.best.observe(2.0, 3)
    load_checkpoint(save_checkpoint(tmp_path, first), second)
    for key, value in first.task.state_dict().items():
        assert torch.equal(second.task.state_dict()[key], value), key
    saved_state, loaded_state = first.optimiser.state_dict(), second.optimiser.state_dict()
    assert json.dumps(saved_state["param_groups"]) == json.dumps(loaded_state["param_groups"])
    assert saved_state["state"].keys() == loaded_state["state"].keys()
    for index, entries in saved_state["state"].items():
        for name, value in entries.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(loaded_state["state"][index][name])), name
    assert first.schedule.state_dict() == second.schedule.state_dict()
    assert first.best.state_dict() == second.best.state_dict()
    assert (second.progress.step, second.progress.epoch, second.progress.batch) == (3, 0, 3)
    for layer in range(2):
        assert torch.equal(first.progress.state.layers[layer].cell.cell, second.progress.state.layers[layer].cell.cell)


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    training = training_of()
    for step in (1, 2, 3, 4):
        training.progress.step = step
        save_checkpoint(tmp_path, training)
    assert [path.name for path in checkpoint_folders(tmp_path)] == [f"step-{step:08d}" for step in (4, 3)]


def test_damaged_checkpoints_do_not_displace_newer_ones(tmp_path: Path) -> None:
    """If training resumed before damaged checkpoints, the next save removes them."""
    training = training_of()
    for step in (6, 8):
        training.progress.step = step
        corrupt(save_checkpoint(tmp_path, training) / "model.safetensors")
    training.progress.step = 2
    save_checkpoint(tmp_path, training, keep=1)
    assert [path.name for path in checkpoint_folders(tmp_path)] == ["step-00000002"]


def test_a_checkpoint_is_renamed_before_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a checkpoint that was half removed when the process was killed is not taken for a damaged one."""
    training = training_of()
    training.progress.step = 2
    save_checkpoint(tmp_path, training)
    with monkeypatch.context() as patch:
        patch.setattr(
            "shutil.rmtree", lambda path, ignore_errors: (Path(path) / "training.json").unlink(missing_ok=True)
        )
        training.progress.step = 4
        save_checkpoint(tmp_path, training, keep=1)
    assert [path.name for path in checkpoint_folders(tmp_path)] == ["step-00000004"]
    training.progress.step = 6
    save_checkpoint(tmp_path, training, keep=1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000006"]


@pytest.mark.parametrize("full_at", ["carried.safetensors", "training.json", "manifest.json"])
def test_a_full_disk_is_reported_and_keeps_the_earlier_checkpoint(
    saved: tuple[Path, TrainingState], monkeypatch: pytest.MonkeyPatch, full_at: str
) -> None:
    folder, training = saved

    def flush(path: Path) -> None:
        if path.name == f"{full_at}.partial":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("clew.core.files.flush", flush)
    training.progress.step = 6
    message = (
        "cannot write a checkpoint in .*: No space left on device; free space there, or make it writable, and resume"
        " with resume=True"
    )
    with pytest.raises(UserError, match=f"{message} from step-00000004"):
        save_checkpoint(folder, training)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-00000002", "step-00000004"]
    assert find_checkpoint(folder) == (folder / "checkpoints" / "step-00000004", [])


def test_the_newest_intact_checkpoint_is_found(saved: tuple[Path, TrainingState]) -> None:
    folder, _ = saved
    assert find_checkpoint(folder) == (folder / "checkpoints" / "step-00000004", [])


def corrupt(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["model.safetensors", "optimiser.safetensors", "carried.safetensors", "training.json"])
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (corrupt, "has changed since it was written"),
        (lambda path: path.write_bytes(path.read_bytes()[:-7]), "has changed since it was written"),
        (Path.unlink, "is missing"),
    ],
    ids=["one bit flipped", "cut short", "missing"],
)
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(
    saved: tuple[Path, TrainingState], file: str, damage, fault: str
) -> None:
    folder, _ = saved
    newest = folder / "checkpoints" / "step-00000004"
    damage(newest / file)
    checkpoint_found, notes = find_checkpoint(folder)
    assert checkpoint_found == folder / "checkpoints" / "step-00000002"
    assert notes == [f"{newest} is damaged ({file} {fault}) and is skipped"]
    load_checkpoint(checkpoint_found, training_of())


def test_a_checkpoint_without_a_manifest_is_skipped(saved: tuple[Path, TrainingState]) -> None:
    folder, _ = saved
    manifest = folder / "checkpoints" / "step-00000004" / "manifest.json"
    manifest.unlink()
    assert find_checkpoint(folder)[1] == [f"{manifest.parent} is damaged ({manifest} is missing) and is skipped"]
    manifest.write_text('{"model.safetensors": "0"}')
    assert find_checkpoint(folder)[1] == [
        f"{manifest.parent} is damaged (manifest.json does not list every file) and is skipped"
    ]


def test_a_partial_checkpoint_is_ignored(saved: tuple[Path, TrainingState]) -> None:
    folder, training = saved
    (folder / "checkpoints" / ".step-00000006.partial").mkdir()
    assert find_checkpoint(folder)[0] == folder / "checkpoints" / "step-00000004"
    training.progress.step = 6
    assert save_checkpoint(folder, training).name == "step-00000006"


def test_no_checkpoint_is_found_if_all_are_damaged(saved: tuple[Path, TrainingState]) -> None:
    folder, _ = saved
    for checkpoint in checkpoint_folders(folder):
        corrupt(checkpoint / "model.safetensors")
    checkpoint_found, notes = find_checkpoint(folder)
    assert checkpoint_found is None and len(notes) == 2


def test_a_checkpoint_of_an_unknown_format_is_rejected(saved: tuple[Path, TrainingState]) -> None:
    folder, _ = saved
    path = folder / "checkpoints" / "step-00000004" / "training.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(
        UserError,
        match=(
            "is of format 99, but this clew reads formats 1 to 3; use the version of clew that wrote it, or train again"
        ),
    ):
        load_checkpoint(path.parent, training_of())


@pytest.mark.parametrize("what", IDENTITY)
def test_a_checkpoint_of_a_different_run_is_rejected(saved: tuple[Path, TrainingState], what: str) -> None:
    folder, _ = saved
    other = training_of(**{what: Known({"digest": "another"}, "another")})
    before = {key: value.clone() for key, value in other.task.state_dict().items()}
    then = f"then {IDENTITY[what].words}; now another"
    message = f"cannot resume from .*: the {what} changed since it was written .{then}.; restore the earlier {what}"
    with pytest.raises(UserError, match=message):
        load_checkpoint(checkpoint_folders(folder)[0], other)
    assert all(torch.equal(before[key], value) for key, value in other.task.state_dict().items())


def test_a_tied_weight_is_stored_once(tmp_path: Path) -> None:
    from safetensors import safe_open

    from tests.thread.models import gpt

    task = gpt()
    training = TrainingState(task, adamw(task.parameters(), 0.1), Plateau(9), Best(), Progress(), IDENTITY)
    with safe_open(save_checkpoint(tmp_path, training) / "model.safetensors", "pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    assert shapes.count([task.body.vocabulary, task.body.dim]) == 1


def test_new_facts_and_wording_do_not_reject_a_checkpoint(saved: tuple[Path, TrainingState]) -> None:
    folder, training = saved
    now = training_of(model=Known({"digest": "model", "added": True}, "in other words"))
    load_checkpoint(checkpoint_folders(folder)[0], now)
    assert now.progress.step == training.progress.step


FACTS = {
    "model": Known({"parameters": 1234, "settings": {"family": "recurrent", "dim": 8}, "task": {}}, ""),
    "tokenizer": Known({"size": 1234, "hash": "0123456789"}, ""),
    "training text": Known({"tokens": 9876, "key": "0123456789"}, ""),
    "training documents": Known({"documents": 12, "tokens": 9876, "digest": "0123456789"}, ""),
    "training examples": Known({"examples": 1234, "digest": "0123456789"}, ""),
}
STREAMS = {"batching": "streams", "vary_length": False, "documents": "joined", "batch_size": 4, "length": 16, "seed": 1}


@pytest.mark.parametrize(
    ("name", "now", "same_words", "other_words"),
    [
        ("model", FACTS["model"], "recurrent of 1,234 parameters, 1a2b3c4d", "recurrent of 1,235 parameters, 1a2b3c4d"),
        ("tokenizer", FACTS["tokenizer"], "1,234 words, 01234567", "1,234 words, 11234567"),
        ("training text", FACTS["training text"], "9,876 tokens, 01234567", "9,876 tokens, 11234567"),
        (
            "training documents",
            FACTS["training documents"],
            "12 of 9,876 tokens, 01234567",
            "13 of 9,876 tokens, 01234567",
        ),
        ("training examples", FACTS["training examples"], "1,234, 01234567", "1,233, 01234567"),
        ("order of batches", Known(STREAMS, ""), "streams of 4 x 16, seed 1", "windows of 4 x 16, seed 1"),
        (
            "order of batches",
            Known({**STREAMS, "vary_length": True}, ""),
            "varied streams of 4 x 16, seed 1",
            "streams of 4 x 16, seed 1",
        ),
        (
            "order of batches",
            Known({**STREAMS, "batching": "windows", "documents": "apart"}, ""),
            "windows, documents apart, of 4 x 16, seed 1",
            "windows of 4 x 16, seed 1",
        ),
        (
            "order of batches",
            Known({"batch_size": 8, "seed": 2}, ""),
            "batches of 8 examples, seed 2",
            "batches of 8 examples, seed 1",
        ),
        (
            "order of batches",
            Known({"batch_tokens": 8000, "seed": 2}, ""),
            "batches of 8,000 tokens, seed 2",
            "batches of 8,001 tokens, seed 2",
        ),
        (
            "order of batches",
            Known({"batch_size": 8, "length": 32, "seed": 2}, ""),
            "batches of 8 rows of 32, seed 2",
            "batches of 8 rows of 16, seed 2",
        ),
    ],
)
def test_a_checkpoint_of_format_1_is_compared_by_its_description(
    saved: tuple[Path, TrainingState], name: str, now: Known, same_words: str, other_words: str
) -> None:
    checkpoint = checkpoint_folders(saved[0])[0]
    facts = json.loads((checkpoint / "training.json").read_text())
    training = training_of(**{name: now})
    for description, is_same in ((same_words, True), (other_words, False)):
        (checkpoint / "training.json").write_text(json.dumps({**facts, "format": 1, "identity": {name: description}}))
        if is_same:
            load_checkpoint(checkpoint, training)
            continue
        with pytest.raises(
            UserError, match=f"cannot resume from .*: the {name} changed since it was written .then {description}; now"
        ):
            load_checkpoint(checkpoint, training)
