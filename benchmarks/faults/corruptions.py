"""One change to one file of a run: a flipped bit, a cut, a removal, a block of zeros, two files that changed places.

In the newest checkpoint, of one file a group or of shards, it is found and named, and the one before is taken; in the
run's own weights, config or tokenizer it is refused with a sentence. A change that says the same, such as a space in
JSON, may load, if all that it gives is the same to the bit. What a run only tells of itself (metrics, environment) may
be damaged without harm: one trial more for each ten.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.children import done, own_folder
from benchmarks.faults.groups import together
from benchmarks.faults.subjects import LSTM, checkpoint_difference, train_recipe, unequal
from benchmarks.faults.trials import Fault, Result, in_this_process, put_through
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
TOLD = (METRICS, ENVIRONMENT)


class Case(NamedTuple):
    """Which run, which of its files, and what is done to it with which numbers."""

    run: str
    file: str
    damage: str
    first: float
    second: float


def flip(path: Path, first: float, second: float, others: list[Path]) -> None:
    content = bytearray(path.read_bytes())
    content[int(first * len(content))] ^= 1 << int(second * 8)
    path.write_bytes(content)


def cut(path: Path, first: float, second: float, others: list[Path]) -> None:
    path.write_bytes(path.read_bytes()[: int(first * path.stat().st_size)])


def remove(path: Path, first: float, second: float, others: list[Path]) -> None:
    path.unlink()


def zero(path: Path, first: float, second: float, others: list[Path]) -> None:
    """A block of up to 512 bytes; of ones, where all of it is zero."""
    content = bytearray(path.read_bytes())
    start, size = int(first * len(content)), 1 + int(second * 511)
    block = content[start : start + size]
    content[start : start + size] = bytes(len(block)) if any(block) else b"\xff" * len(block)
    path.write_bytes(content)


def swap(path: Path, first: float, second: float, others: list[Path]) -> None:
    """With another one of the same checkpoint; one of the checkpoint before stays as it is."""
    others = [other for other in others if other.read_bytes() != path.read_bytes()]
    other = others[int(first * len(others))]
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    if other.parent == path.parent:
        other.write_bytes(mine)


DAMAGES: dict[str, Callable[[Path, float, float, list[Path]], None]] = {
    "flipped bit": flip,
    "cut": cut,
    "removed": remove,
    "zeroed block": zero,
    "swapped": swap,
}


def run(count: int, seed: int) -> Result:
    with own_folder("corruptions") as place:
        prepare(place)
        loaded = {name: load_run(place / name, device="cpu") for name in RUNS}
        files = {name: damageable(place / name) for name in RUNS}
        harmless = {name: list(TOLD) for name in RUNS}
        numbers = [(number, files) for number in range(count)] + [
            (number, harmless) for number in range(count, count + count // 10)
        ]
        cases = iter([drawn(seed, number, among) for number, among in numbers])
        fault = Fault(
            "corruptions",
            lambda _: next(cases),
            lambda case: attempt(case, place, loaded[case.run]),
            str,
            lambda case: (),
        )
        return put_through(fault, len(numbers), seed, in_this_process)


def prepare(place: Path) -> None:
    """The same run by one process, and by two that each hold a shard."""
    ended = done(lambda: train_recipe("text-lstm", SETTINGS, place / "plain"), place)
    assert ended.status == 0, ended.err
    together(lambda rank: train_recipe("text-lstm", [*SETTINGS, *RUNS["sharded"]], place / "sharded"), 2, place)


def damageable(folder: Path) -> list[str]:
    newest = checkpoint_folders(folder)[0]
    inside = [f"{newest.relative_to(folder)}/{path.name}" for path in sorted(newest.iterdir())]
    return [*inside, *OWN]


def drawn(seed: int, number: int, files: dict[str, list[str]]) -> Case:
    chance = random.Random(f"corruptions {seed} {number}")
    name = chance.choice(list(RUNS))
    return Case(name, chance.choice(files[name]), chance.choice(list(DAMAGES)), chance.random(), chance.random())


def attempt(case: Case, place: Path, before: Run) -> str:
    whole, folder = place / case.run, place / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    path = folder / case.file
    damage(case, folder)
    assert not path.is_file() or path.read_bytes() != (whole / case.file).read_bytes(), "nothing was damaged"
    if case.file.startswith("checkpoints"):
        return check_checkpoint(path.parent, whole)
    if case.file in TOLD:
        load_run(folder, device="cpu")
        list(read_metrics(folder))
        return "harmless in what a run tells of itself"
    try:
        found = load_run(folder, device="cpu")
    except UserError as error:
        named = {str(path), case.file, Path(case.file).name, str(folder)}
        assert any(name in str(error) for name in named), f"names no file: {error}"
        raise
    assert not (name := unequal(before.task.state_dict(), found.task.state_dict())), f"another {name} of {case.file}"
    assert found.config == before.config, f"another config: {differences(before.config, found.config)}"
    assert found.tokenizer.hash == before.tokenizer.hash, "another tokenizer"
    return "said the same, and loaded to the bit"


def damage(case: Case, folder: Path) -> None:
    """With what it may change places: the other files of its checkpoint and the same one of the checkpoint before, or
    the run's own files and a checkpoint's."""
    path = folder / case.file
    newest, before = checkpoint_folders(folder)
    if path.parent == newest:
        others = [other for other in sorted(newest.iterdir()) if other != path] + [before / path.name]
    else:
        others = [folder / name for name in (*OWN, ENVIRONMENT) if name != case.file] + [newest / "manifest.json"]
    DAMAGES[case.damage](path, case.first, case.second, others)


def check_checkpoint(newest: Path, whole: Path) -> str:
    """Found, named and passed over; or the same to the bit."""
    folder = newest.parents[1]
    found, complaints = find_checkpoint(folder)
    assert found is not None, "no checkpoint is left"
    if found == newest:
        assert not complaints
        difference = checkpoint_difference(checkpoint_folders(whole)[0], newest)
        assert not difference, f"taken for whole, with another {difference}"
        return "said the same, and loaded to the bit"
    assert len(complaints) == 1 and str(newest) in complaints[0] and "damaged" in complaints[0], complaints
    difference = checkpoint_difference(checkpoint_folders(whole)[1], found)
    assert not difference, f"the one before has another {difference}"
    return "found, and passed over for the one before"
