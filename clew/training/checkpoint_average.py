"""The mean of several weights of one model: a run's last checkpoints (Vaswani et al. 2017), or several runs (Izmailov
et al. 2018 on why points of one valley average well; runs of different seeds stand in different ones, and the
validation loss says so).

    average = (weights_1 + ... + weights_n) / n      in float64
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.files import file_hash, read_json
from clew.metrics.score import Score
from clew.runs.directory import (
    CODE,
    METRICS,
    WEIGHTS,
    append_metrics,
    check_code,
    check_empty,
    check_run,
    read_config,
    read_weights,
    write_config,
    write_environment,
    write_weights,
)
from clew.runs.embedding import check_merged
from clew.runs.folder.summary import summarise
from clew.runs.folder.vocabularies import load_vocabularies, save_vocabularies
from clew.runs.loaded import Run, load_run
from clew.runs.settings.fields import changed_fields
from clew.runs.trust import check_paths, trust_like
from clew.training.checkpoints import MANIFEST, MODEL, TRAINING, checkpoint_folders, find_fault, read_group
from clew.training.problems import prepare_problem

SAME = ("model.", "task.", "text.")
"""The sections of a config that make two runs one model."""


@dataclass(frozen=True)
class Source:
    """Weights to average: a run's best ones, or those of a checkpoint."""

    run: Path
    path: Path
    step: int

    @property
    def name(self) -> str:
        return str(self.path if self.path.is_dir() else self.run)


@dataclass(frozen=True)
class Averaged:
    """A run directory that was written, and what every source and the average score on the validation text; None where
    that is not here."""

    folder: Path
    sources: list[Source]
    losses: list[Score] | None
    loss: Score | None


def source_weights(source: Source) -> dict[str, Tensor]:
    """The one place that reads what is averaged."""
    return read_group(source.path, MODEL) if source.path.is_dir() else read_weights(source.path)


def choose_sources(
    run: Path,
    *,
    last: int | None = None,
    steps: Sequence[int] = (),
    best: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Source]:
    """The run's newest whole checkpoints, or those of the steps that are named, the newest first; and its best weights
    where they are asked for and not among these."""
    if last is None and not steps:
        return [best_weights(run)] if best else []
    there = whole_checkpoints(run, say)
    known = ", ".join(map(str, sorted(there))) or "none"
    for step in steps:
        if step not in there:
            raise UserError(f"{run} has no whole checkpoint of step {step}; it has: {known}")
    if last is not None and last > len(there):
        raise UserError(f"{run} has {len(there)} whole checkpoints, not {last}; it has: {known}")
    chosen = sorted(set(steps), reverse=True) if steps else sorted(there, reverse=True)[:last]
    best_one = [best_weights(run)] if best else []
    return [Source(run, there[step], step) for step in chosen] + [
        source for source in best_one if source.step not in chosen
    ]


def whole_checkpoints(run: Path, say: Callable[[str], None] = lambda text: None) -> dict[int, Path]:
    """The run's checkpoints by their steps; a damaged one is named and passed over."""
    found = {}
    for checkpoint in checkpoint_folders(run):
        fault = find_fault(checkpoint)
        if fault is None:
            found[int(read_json(checkpoint / TRAINING)["step"])] = checkpoint
        else:
            say(f"{checkpoint} is damaged ({fault}) and is passed over")
    return found


def best_weights(run: Path) -> Source:
    """The weights that a run is used with."""
    summary = summarise(run)
    ends = [record["best.step"] for record in summary.records if isinstance(record.get("best.step"), int)]
    return Source(run, run / WEIGHTS, ends[-1] if ends else summary.step)


def average_weights(sources: Sequence[Source]) -> dict[str, Tensor]:
    """The mean of every tensor, in its own type; whole numbers are the first one's."""
    first = source_weights(sources[0])
    total = {name: value.double() for name, value in first.items() if value.is_floating_point()}
    for source in sources[1:]:
        weights = source_weights(source)
        check_shapes(sources[0], first, source, weights)
        for name, value in total.items():
            value += weights[name].double()
    return {
        name: (total[name] / len(sources)).to(value.dtype) if name in total else value for name, value in first.items()
    }


def check_shapes(first: Source, there: dict[str, Tensor], second: Source, here: dict[str, Tensor]) -> None:
    """Weights of one model have the same names and shapes; the sentence names the first that does not."""
    for name in sorted(there.keys() | here.keys()):
        shapes = [tuple(weights[name].shape) if name in weights else "missing" for weights in (there, here)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"only weights of one model can be averaged, but {name} is {shapes[0]} in {first.name} and {shapes[1]}"
                f" in {second.name}"
            )


def check_alike(runs: Sequence[Path]) -> None:
    """Runs are of one model where nothing differs in their model, task and text, nor in what their tokens stand for."""
    first, tokens = read_config(runs[0]), vocabulary_hashes(runs[0])
    for run in runs[1:]:
        changed = {
            name: values for name, values in changed_fields(first, read_config(run)).items() if name.startswith(SAME)
        }
        if changed:
            listed = "; ".join(f"{name}: {one!r} -> {other!r}" for name, (one, other) in changed.items())
            raise UserError(f"only runs of one model can be averaged, but {run} differs from {runs[0]} in {listed}")
        if vocabulary_hashes(run) != tokens:
            raise UserError(
                f"only runs with one vocabulary can be averaged, but {run} was trained with another than {runs[0]}"
            )


def vocabulary_hashes(run: Path) -> dict[str, str]:
    return {role: vocabulary.hash for role, vocabulary in load_vocabularies(run, read_config(run)).items()}


def average_runs(
    runs: Sequence[Path],
    out: Path,
    *,
    last: int | None = None,
    steps: Sequence[int] = (),
    best: bool = False,
    device: str = "auto",
    code: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Averaged:
    """Averages weights into a run directory of its own. Of one run, all its whole checkpoints where none are chosen; of
    several, the weights that each is used with."""
    for folder in runs:
        check_run(folder)
        check_code(folder, code)
        check_merged(folder, read_config(folder))
    check_alike(runs)
    check_empty(out)
    if last is None and not steps:
        best = best or len(runs) > 1
        last = len(whole_checkpoints(runs[0])) if len(runs) == 1 else None
    sources = [source for run in runs for source in choose_sources(run, last=last, steps=steps, best=best, say=say)]
    if len(sources) < 2:
        raise UserError(
            f"an average needs at least two weights, and there {'is 1' if sources else 'are none'} to take; "
            "name more checkpoints or runs, or add --best"
        )
    weights = average_weights(sources)
    run = load_run(runs[0], device=device, code=code)
    losses, loss = evaluated(run, sources, weights, say)
    write_average(run, out, sources, weights, loss)
    return Averaged(out, sources, losses, loss)


def evaluated(
    run: Run, sources: Sequence[Source], weights: dict[str, Tensor], say: Callable[[str], None]
) -> tuple[list[Score] | None, Score | None]:
    """The validation score of every source and of the average, in the run's task; the average's weights are in it
    afterwards."""
    try:
        check_paths(run.folder, run.config.data)
        problem = prepare_problem(run.config, run.folder)
    except UserError as error:
        say(f"not evaluated: {error}")
        return None, None
    found = []
    for state in [*map(source_weights, sources), weights]:
        run.task.load_state_dict(state)
        score = problem.judge("valid", run.task, run.task, nullcontext, lambda: False)
        assert score is not None
        found.append(score)
    return found[:-1], found[-1]


def write_average(
    run: Run, out: Path, sources: Sequence[Source], weights: dict[str, Tensor], loss: Score | None
) -> None:
    """A run directory that is used as any other; its one record names what was averaged, each with its hash."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / METRICS).unlink(missing_ok=True)
        save_vocabularies(out, run.vocabularies)
        write_environment(out, torch.device(next(run.task.parameters()).device))
        if (run.folder / CODE).exists():
            shutil.copyfile(run.folder / CODE, out / CODE)
        write_weights(out / WEIGHTS, weights)
        step = max(source.step for source in sources)
        about = [
            {"weights": source.name, "step": source.step, "sha256": file_hash(weights_file(source))}
            for source in sources
        ]
        scores = {f"best.valid.{name}": value for name, value in loss.measures.items()} if loss is not None else {}
        append_metrics(out, {"step": step, "best.step": step, **scores, "averaged": about})
        write_config(out, run.config)
        trust_like(out, [run.folder])
    except OSError as error:
        raise UserError(
            f"cannot write the average to {out}: {error.strerror or error}; choose another place with --out"
        ) from None


def weights_file(source: Source) -> Path:
    """A file that changes where the weights do."""
    return source.path / MANIFEST if source.path.is_dir() else source.path
