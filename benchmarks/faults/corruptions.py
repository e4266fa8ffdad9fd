"""One change to one file of a run: a flipped bit, a truncation, a removal, a block of zeros, or two swapped files.

If the newest checkpoint is damaged, the damage must be detected and named, and the previous checkpoint must be used.
Checkpoints of one process and of shards are tested. If the weights, config or tokenizer of the run itself are damaged,
it must be rejected with a message. A change without a meaning, such as a space in JSON, may load if the result is
bit-identical. Damage to files that only describe a run (metrics, environment) must be harmless; that is tested by one
additional trial for every ten.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.children import run_child, temporary_folder
from benchmarks.faults.groups import run_group
from benchmarks.faults.subjects import LSTM, checkpoint_difference, train_recipe, unequal_tensor
from benchmarks.faults.trials import Fault, Result, in_this_process, run_trials
from clew.core.errors import UserError
from clew.runs.folder.run_files import ENVIRONMENT, METRICS, WEIGHTS, read_metrics
from clew.runs.loaded import Run, load_run
from clew.runs.settings.fields import differences
from clew.training.checkpoints import checkpoint_folders, find_checkpoint

STEPS = 4
SETTINGS = [
    *LSTM,
    f"training.steps={STEPS}",
    "training.evaluate_every=2",
    "training.save_every=2",
    "training.average=ema",
]
RUNS = {"plain": [], "sharded": ["training.parallel=fsdp"]}
OWN = (WEIGHTS, "config.json", "vocabulary/tokenizer.json")
DESCRIPTIONS = (METRICS, ENVIRONMENT)


class Case(NamedTuple):
    """A run, one of its files, and its damage. `first` and `second` are the random numbers of the damage."""

    run: str
    file: str
    damage: str
    first: float
    second: float


def flip(path: Path, first: float, second: float, other_files: list[Path]) -> None:
    content = bytearray(path.read_bytes())
    content[int(first * len(content))] ^= 1 << int(second * 8)
    path.write_bytes(content)


def cut(path: Path, first: float, second: float, other_files: list[Path]) -> None:
    path.write_bytes(path.read_bytes()[: int(first * path.stat().st_size)])


def remove(path: Path, first: float, second: float, other_files: list[Path]) -> None:
    path.unlink()


def zero(path: Path, first: float, second: float, other_files: list[Path]) -> None:
    """Zero a block of up to 512 bytes, or fill it with ones if it is already zero."""
    content = bytearray(path.read_bytes())
    start, size = int(first * len(content)), 1 + int(second * 511)
    block = content[start : start + size]
    content[start : start + size] = bytes(len(block)) if any(block) else b"\xff" * len(block)
    path.write_bytes(content)


def swap(path: Path, first: float, second: float, other_files: list[Path]) -> None:
    """Replace a file by another one. If both are in the same folder, swap them."""
    other_files = [other for other in other_files if other.read_bytes() != path.read_bytes()]
    other = other_files[int(first * len(other_files))]
    content, other_content = path.read_bytes(), other.read_bytes()
    path.write_bytes(other_content)
    if other.parent == path.parent:
        other.write_bytes(content)


DAMAGES: dict[str, Callable[[Path, float, float, list[Path]], None]] = {
    "flipped bit": flip,
    "cut": cut,
    "removed": remove,
    "zeroed block": zero,
    "swapped": swap,
}


def run(count: int, seed: int) -> Result:
    with temporary_folder("corruptions") as workspace:
        prepare(workspace)
        loaded = {name: load_run(workspace / name, device="cpu") for name in RUNS}
        files = {name: damageable(workspace / name) for name in RUNS}
        harmless = {name: list(DESCRIPTIONS) for name in RUNS}
        numbers = [(number, files) for number in range(count)] + [
            (number, harmless) for number in range(count, count + count // 10)
        ]
        cases = iter([draw_case(seed, number, candidates) for number, candidates in numbers])
        fault = Fault(
            "corruptions",
            lambda _: next(cases),
            lambda case: attempt(case, workspace, loaded[case.run]),
            str,
            lambda case: (),
        )
        return run_trials(fault, len(numbers), seed, in_this_process)


def prepare(workspace: Path) -> None:
    """Train the same run in one process, and in two processes with a shard each."""
    process = run_child(lambda: train_recipe("text-lstm", SETTINGS, workspace / "plain"), workspace)
    assert process.status == 0, process.err
    run_group(
        lambda rank: train_recipe("text-lstm", [*SETTINGS, *RUNS["sharded"]], workspace / "sharded"), 2, workspace
    )


def damageable(folder: Path) -> list[str]:
    newest = checkpoint_folders(folder)[0]
    inside = [f"{newest.relative_to(folder)}/{path.name}" for path in sorted(newest.iterdir())]
    return [*inside, *OWN]


def draw_case(seed: int, number: int, files: dict[str, list[str]]) -> Case:
    rng = random.Random(f"corruptions {seed} {number}")
    name = rng.choice(list(RUNS))
    return Case(name, rng.choice(files[name]), rng.choice(list(DAMAGES)), rng.random(), rng.random())


def attempt(case: Case, workspace: Path, reference: Run) -> str:
    original, folder = workspace / case.run, workspace / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    path = folder / case.file
    damage(case, folder)
    assert not path.is_file() or path.read_bytes() != (original / case.file).read_bytes(), "nothing was damaged"
    if case.file.startswith("checkpoints"):
        return check_checkpoint(path.parent, original)
    if case.file in DESCRIPTIONS:
        load_run(folder, device="cpu")
        list(read_metrics(folder))
        return "harmless in a descriptive file"
    try:
        loaded = load_run(folder, device="cpu")
    except UserError as error:
        names = {str(path), case.file, Path(case.file).name, str(folder)}
        assert any(name in str(error) for name in names), f"no file in the message: {error}"
        raise
    assert not (name := unequal_tensor(reference.task.state_dict(), loaded.task.state_dict())), (
        f"different {name} in {case.file}"
    )
    assert loaded.config == reference.config, f"different config: {differences(reference.config, loaded.config)}"
    assert loaded.tokenizer.hash == reference.tokenizer.hash, "different tokenizer"
    return "change without a meaning, loaded bit-identically"


def damage(case: Case, folder: Path) -> None:
    """Damage a file of a case.

    A file of a checkpoint may be swapped with another file of it, or with the same file of the previous checkpoint; a
    file of the run may be swapped with another one of the run or of a checkpoint.
    """
    path = folder / case.file
    newest, previous = checkpoint_folders(folder)
    if path.parent == newest:
        other_files = [other for other in sorted(newest.iterdir()) if other != path] + [previous / path.name]
    else:
        other_files = [folder / name for name in (*OWN, ENVIRONMENT) if name != case.file] + [newest / "manifest.json"]
    DAMAGES[case.damage](path, case.first, case.second, other_files)


def check_checkpoint(newest: Path, original: Path) -> str:
    """Check that the damage is detected and the previous checkpoint is used, or that the newest is bit-identical."""
    folder = newest.parents[1]
    checkpoint, problems = find_checkpoint(folder)
    assert checkpoint is not None, "no checkpoint is left"
    if checkpoint == newest:
        assert not problems
        difference = checkpoint_difference(checkpoint_folders(original)[0], newest)
        assert not difference, f"damage was not detected; different {difference}"
        return "change without a meaning, loaded bit-identically"
    assert len(problems) == 1 and str(newest) in problems[0] and "damaged" in problems[0], problems
    difference = checkpoint_difference(checkpoint_folders(original)[1], checkpoint)
    assert not difference, f"the previous checkpoint has a different {difference}"
    return "detected, previous checkpoint used"
