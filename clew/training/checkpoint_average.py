"""The mean of several sets of weights of one model: of a run's last checkpoints (Vaswani et al. 2017), or of several
runs. Weights in one valley of the loss average well (Izmailov et al. 2018). Runs with different seeds are in different
valleys, and the validation loss of their average shows it.

    average = (weights_1 + ... + weights_n) / n      in float64
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from clew.core.errors import UserError, counted
from clew.core.files import file_hash, read_json
from clew.core.wording import argument
from clew.metrics.score import Score
from clew.runs.directory import (
    append_metrics,
    check_code,
    check_empty,
    read_config,
    read_weights,
    write_config,
    write_environment,
    write_weights,
)
from clew.runs.embedding import check_merged
from clew.runs.folder.run_files import CODE, METRICS, WEIGHTS, check_run
from clew.runs.folder.summary import summarise
from clew.runs.folder.vocabularies import load_vocabularies, save_vocabularies
from clew.runs.loaded import Run, load_run
from clew.runs.settings.fields import changed_fields
from clew.runs.trust import check_paths, trust_like
from clew.training.checkpoints import MANIFEST, MODEL, TRAINING, checkpoint_folders, find_fault, read_group
from clew.training.problems import prepare_problem

MODEL_SECTIONS = ("model.", "task.", "text.")
"""The sections of a config that must be equal for an average of two runs."""


@dataclass(frozen=True)
class Source:
    """Weights to average: the best ones of a run, or those of a checkpoint."""

    run: Path
    path: Path
    step: int

    @property
    def name(self) -> str:
        return str(self.path if self.path.is_dir() else self.run)


@dataclass(frozen=True)
class Averaged:
    """The new run directory, and the validation scores of every source and of the average; None if the validation data
    are not available."""

    folder: Path
    sources: list[Source]
    losses: list[Score] | None
    loss: Score | None


def source_weights(source: Source) -> dict[str, Tensor]:
    """Read the weights of a source."""
    return read_group(source.path, MODEL) if source.path.is_dir() else read_weights(source.path)


def choose_sources(
    run: Path,
    *,
    last: int | None = None,
    steps: Sequence[int] = (),
    best: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Source]:
    """Return the `last` newest intact checkpoints of a run, or those of `steps`, the newest first; with `best`, also
    its best weights unless they are among these."""
    if last is None and not steps:
        return [best_weights(run)] if best else []
    checkpoints = intact_checkpoints(run, say)
    known = ", ".join(map(str, sorted(checkpoints))) or "none"
    for step in steps:
        if step not in checkpoints:
            raise UserError(f"{run} has no intact checkpoint of step {step}; it has checkpoints of the steps: {known}")
    if last is not None and last > len(checkpoints):
        raise UserError(
            f"{run} has {counted(len(checkpoints), 'intact checkpoint')}, not {last}; their steps are: {known}"
        )
    chosen = sorted(set(steps), reverse=True) if steps else sorted(checkpoints, reverse=True)[:last]
    best_source = [best_weights(run)] if best else []
    return [Source(run, checkpoints[step], step) for step in chosen] + [
        source for source in best_source if source.step not in chosen
    ]


def intact_checkpoints(run: Path, say: Callable[[str], None] = lambda text: None) -> dict[int, Path]:
    """Return the intact checkpoints of a run by step. A damaged one is reported and skipped."""
    checkpoints = {}
    for checkpoint in checkpoint_folders(run):
        fault = find_fault(checkpoint)
        if fault is None:
            checkpoints[int(read_json(checkpoint / TRAINING)["step"])] = checkpoint
        else:
            say(f"{checkpoint} is damaged ({fault}) and is skipped")
    return checkpoints


def best_weights(run: Path) -> Source:
    """Return the weights of a run's best evaluation."""
    summary = summarise(run)
    ends = [record["best.step"] for record in summary.records if isinstance(record.get("best.step"), int)]
    return Source(run, run / WEIGHTS, ends[-1] if ends else summary.step)


def average_weights(sources: Sequence[Source]) -> dict[str, Tensor]:
    """Return the mean of every tensor, in its dtype. Integer tensors are those of the first source."""
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


def check_shapes(
    first: Source, first_weights: dict[str, Tensor], second: Source, second_weights: dict[str, Tensor]
) -> None:
    """Check that two sets of weights have the same names and shapes."""
    for name in sorted(first_weights.keys() | second_weights.keys()):
        one, other = (
            tuple(weights[name].shape) if name in weights else "missing" for weights in (first_weights, second_weights)
        )
        if one != other:
            raise UserError(
                f"only weights of one model can be averaged, but {name} is {one} in {first.name} and {other} in"
                f" {second.name}"
            )


def check_same_model(runs: Sequence[Path]) -> None:
    """Check that runs have one model: the same sections `model`, `task` and `text`, and the same vocabularies."""
    first, tokens = read_config(runs[0]), vocabulary_hashes(runs[0])
    for run in runs[1:]:
        changed = {
            name: values
            for name, values in changed_fields(first, read_config(run)).items()
            if name.startswith(MODEL_SECTIONS)
        }
        if changed:
            listed = "; ".join(f"{name}: {one!r} -> {other!r}" for name, (one, other) in changed.items())
            raise UserError(f"only runs of one model can be averaged, but {run} differs from {runs[0]} in {listed}")
        if vocabulary_hashes(run) != tokens:
            raise UserError(
                f"only runs with the same vocabulary can be averaged, but {run} was trained with another one than"
                f" {runs[0]}"
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
    """Average weights and write a new run directory. By default, average all intact checkpoints of one run, or the best
    weights of several runs."""
    for folder in runs:
        check_run(folder)
        check_code(folder, code)
        check_merged(folder, read_config(folder))
    check_same_model(runs)
    check_empty(out)
    if last is None and not steps:
        best = best or len(runs) > 1
        last = len(intact_checkpoints(runs[0])) if len(runs) == 1 else None
    sources = [source for run in runs for source in choose_sources(run, last=last, steps=steps, best=best, say=say)]
    if len(sources) < 2:
        raise UserError(
            f"an average needs at least two sets of weights, and there {'is 1' if sources else 'are none'}; name more"
            f" checkpoints or runs, or add {argument('best', True)}"
        )
    weights = average_weights(sources)
    run = load_run(runs[0], device=device, code=code)
    losses, loss = evaluate_all(run, sources, weights, say)
    write_average(run, out, sources, weights, loss)
    return Averaged(out, sources, losses, loss)


def evaluate_all(
    run: Run, sources: Sequence[Source], weights: dict[str, Tensor], say: Callable[[str], None]
) -> tuple[list[Score] | None, Score | None]:
    """Return the validation score of every source and of the average. Afterwards the run's task has the averaged
    weights."""
    try:
        check_paths(run.folder, run.config.data)
        problem = prepare_problem(run.config, run.folder)
    except UserError as error:
        say(f"not evaluated: {error}")
        return None, None
    scores = []
    for state in [*map(source_weights, sources), weights]:
        run.task.load_state_dict(state)
        score = problem.judge("valid", run.task, run.task, nullcontext, lambda: False)
        assert score is not None
        scores.append(score)
    return scores[:-1], scores[-1]


def write_average(
    run: Run, out: Path, sources: Sequence[Source], weights: dict[str, Tensor], loss: Score | None
) -> None:
    """Write a run directory. Its only record names the averaged weights, each with its hash."""
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
            f"cannot write the average to {out}: {error.strerror or error}; choose another folder with"
            f" {argument('out')}"
        ) from None


def weights_file(source: Source) -> Path:
    """Return a file that changes with the weights of a source."""
    return source.path / MANIFEST if source.path.is_dir() else source.path
