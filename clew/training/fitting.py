"""A module and a DataLoader of the user's own, trained by the loop that trains runs: checkpoints, signals and resuming
included.

The loop asks for batches by position, so that the order is drawn here, from (seed, epoch), and not by the loader's
sampler; what is random in making a batch comes from (seed, epoch, batch), and in a step from (seed, step). Hence a
resumed run goes on to the bit.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

from clew.core.batches import Batches, map_batch, num_rows, to_device
from clew.core.config import Part, check_part
from clew.core.errors import UserError, counted, did_you_mean, shown
from clew.core.identity import Known
from clew.core.processes import (
    derived,
    first_alone,
    from_first,
    is_first,
    process_group,
    rank,
    share_of,
    sum_over_processes,
    world_size,
)
from clew.core.types import State, Term
from clew.layers.precision import is_quantised
from clew.metrics.score import Score
from clew.runs.config import TrainingConfig, meant_by
from clew.runs.directory import ENVIRONMENT, METRICS, WEIGHTS, is_abandoned, read_weights, write_environment
from clew.runs.folder.replacing import check_replaceable
from clew.runs.settings.explaining import read_section
from clew.tasks.learning import Autocast
from clew.training.callbacks import Callback, Ended
from clew.training.driving import drive, keep_weights, open_loggers, restore
from clew.training.optimisers import OPTIMISERS
from clew.training.precision import precision
from clew.training.problem import OnProgress, Problem, no_progress
from clew.training.report import Report, Silence
from clew.training.run import check_training, own_device, watching
from clew.training.run_folder import RunFolder, alone, make_folder, writing
from clew.training.schedules import SCHEDULES
from clew.training.trainer import Trainer, build_trainer, digest

Evaluate = Callable[[Any], float | Mapping[str, float]]
"""Measures a module: a loss, or measures by name with `loss` among them. The smallest loss is the best."""


class Settings(TypedDict, total=False):
    """The fields of the section `training` that hold for any module, with that section's defaults."""

    learning_rate: float
    schedule: Part
    clip_norm: float | None
    clip_value: float | None
    accumulate: int
    average: Part | None
    precision: str
    compile: bool
    evaluate_every: int
    save_every: int | None
    keep: int
    log_every: int
    patience: int | None


ARGUMENTS = ("steps", "optimiser", "evaluate", "seed", "device", "resume", "overwrite", "quiet", "callbacks")
"""Those of `clew.fit` that are no settings."""


@dataclass(frozen=True, repr=False)
class Fit:
    """What `fit` gives back: the module with the weights of its best evaluation, or without one those of the last
    step."""

    module: Any
    folder: Path
    step: int
    best_step: int
    measures: dict[str, float]
    """What the best evaluation measured; nothing where there was none."""
    seconds: float

    def __repr__(self) -> str:
        measures = "".join(f", {name} {value:.4g}" for name, value in self.measures.items())
        best = f", best at step {self.best_step}" if self.measures and self.best_step != self.step else ""
        return f"Fit({str(self.folder)!r}: {type(self.module).__name__}, {counted(self.step, 'step')}{best}{measures})"


class Given(NamedTuple):
    """A batch of the user's, apart from the fields that the loop reads from its own."""

    content: Any


class AsTask(nn.Module):
    """A module of the user's as a task. A loss is a mean over rows: loss * rows / rows. A module that gives terms (sum,
    count) counts them itself, from the batch alone: `counts(batch)`."""

    def __init__(self, module: Any):
        super().__init__()
        self.module = module

    def forward(self, batch: Given, state: State = None) -> tuple[dict[str, Term], State]:
        if self.module.training:
            seed_others(torch.initial_seed())  # the loop's for this step
        found = self.module(batch.content)
        if isinstance(found, tuple) and not isinstance(found, Term):
            found = found[0]  # a task of clew's gives its state too
        if isinstance(found, Tensor):
            return {"loss": self.mean_term(found, batch)}, None
        terms = {"loss": found} if isinstance(found, Term) else found
        if not isinstance(terms, dict) or not all(isinstance(term, Term) for term in terms.values()):
            raise UserError(
                f"the module's forward(batch) gave {shown(found)}; give the loss as a tensor with one number, or terms"
                ' by name: clew.core.types.Term(sum, count) under "loss"'
            )
        if set(self.counts(batch)) != set(terms):
            raise UserError(
                f"the module gives the terms {', '.join(terms)} and counts {', '.join(self.counts(batch))}; "
                "give it a method counts(batch) that gives every term's count by name, from the batch alone"
            )
        return terms, None

    def mean_term(self, loss: Tensor, batch: Given) -> Term:
        if loss.numel() != 1:
            raise UserError(
                f"the module's loss has the shape {list(loss.shape)}; give one number, the mean over the batch's rows"
            )
        if torch.is_grad_enabled() and not loss.requires_grad:
            raise UserError(
                "the module's loss does not depend on its parameters, so there is nothing to learn; compute it from"
                " them"
            )
        if hasattr(self.module, "counts"):
            raise UserError(
                "the module has a method counts, which is for terms; give Term(sum, count), or leave counts out"
            )
        rows = num_rows(batch)
        loss = loss.float() if loss.dtype in (torch.bfloat16, torch.float16) else loss
        return Term(loss.reshape(()) * rows, torch.full((), rows, device=loss.device))

    def counts(self, batch: Given) -> dict[str, Tensor]:
        if not hasattr(self.module, "counts"):
            return {"loss": torch.tensor(num_rows(batch))}
        found = self.module.counts(batch.content)
        return found if isinstance(found, dict) else {"loss": found}


def fit(
    module: nn.Module,
    loader: DataLoader[Any] | Batches,
    folder: Path | str,
    *,
    steps: int,
    optimiser: Part | torch.optim.Optimizer = "adamw",
    evaluate: Evaluate | DataLoader[Any] | None = None,
    seed: int = 1,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    report: Report | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Unpack[Settings],
) -> Fit:
    """Trains a module whose `forward(batch)` gives a loss, on the batches of a loader, until `steps`; all that happens
    is in `folder`.

    `evaluate` is a loader whose mean loss is measured, or a function of the module. `resume` goes on from the folder's
    newest checkpoint, to the bit, or starts where there is none; `overwrite` replaces the fit that is there. Raises
    `Interrupted` where a signal came, after saving.
    """
    report = report if report is not None and is_first() else Silence()
    folder = Path(folder)
    with process_group(device), watching(folder, report, callbacks) as watchers:
        batches, about, known = batches_of(loader, seed)
        training = settings_of(loader, steps, optimiser, dict(settings))
        check_module(module, optimiser)
        from_first(lambda: checked_folder(folder, resume, overwrite))  # on one process, before any of them writes there
        own, reason = own_device(device)
        module.to(own)
        known = {**identity(module, training, optimiser, seed), **known}
        parts = ("valid",) if evaluate is not None else ()
        problem = Problem(module, {}, batches, parts, judge_of(evaluate), about, known)
        report.say(f"device {reason}")
        report.say(f"{sum(p.numel() for p in module.parameters()):,} parameters; {about}; writing to {folder}")
        first_alone(lambda: make_folder(folder))
        with alone(folder), precision(training, own) as autocast:
            if overwrite and rank() == 0:
                RunFolder(folder, overwrite=True).remove()
            given = optimiser if isinstance(optimiser, torch.optim.Optimizer) else None
            # The trainer is not kept in a variable here: it holds the process group, which is left after this.
            return fit_with(
                build_trainer(training, folder, problem, seed, autocast, watchers, optimiser=given, as_task=AsTask),
                resume,
            )


def fit_with(trainer: Trainer, resume: bool) -> Fit:
    """Train to the end, from the newest checkpoint if it is to be resumed."""
    trainer.unit = "rows"
    if rank() == 0 and not (trainer.folder / ENVIRONMENT).exists():
        with writing("the run", trainer.folder):
            write_environment(trainer.folder, trainer.device)
    if resume:
        restore(trainer)
    with open_loggers(trainer, resume):
        drive(trainer)
        fit = finish(trainer)
    trainer.watchers.callbacks.end(Ended(fit.step, fit.best_step, fit.measures, fit.seconds, fit.folder))
    return fit


def finish(trainer: Trainer) -> Fit:
    """Load the best weights, or the last ones, evaluate them, and write the last metrics."""
    state, folder, module = trainer.state, trainer.folder, trainer.task
    if state.best.step == 0:
        with state.average.in_place() if state.average is not None else nullcontext():
            keep_weights(trainer)
    first_alone(lambda: None)  # every process reads what the first has written
    module.load_state_dict(read_weights(folder / WEIGHTS))
    module.eval()
    step, seconds = state.progress.step, state.progress.seconds
    best_step = state.best.step or step
    measures: dict[str, float] = {}
    if trainer.problem.parts:
        score = trainer.problem.judge("valid", module, module, trainer.options.autocast, lambda: False, final=True)
        assert score is not None
        measures = dict(score.measures)
    best = {f"best.valid.{name}": value for name, value in measures.items()}
    trainer.log({"step": step, "best.step": best_step, **best, "seconds": seconds})
    return Fit(module, folder, step, best_step, measures, seconds)


def settings_of(
    loader: DataLoader[Any] | Batches, steps: int, optimiser: Part | torch.optim.Optimizer, settings: dict[str, Any]
) -> TrainingConfig:
    """What is given as the section `training`, with that section's rules."""
    for name in settings:
        if name not in Settings.__annotations__:
            meant = (meant_by(name) or "").removeprefix("training.")
            known = (*ARGUMENTS, *Settings.__annotations__)
            near = f"; did you mean {meant}?" if meant in Settings.__annotations__ else did_you_mean(name, known)
            raise UserError(f"fit has no setting {name!r}{near} it has {', '.join(Settings.__annotations__)}")
    rows = (loader.batch_size if isinstance(loader, DataLoader) else None) or settings.get(
        "accumulate", 1
    ) * world_size()
    part = "adamw" if isinstance(optimiser, torch.optim.Optimizer) else optimiser
    workers = loader.num_workers if isinstance(loader, DataLoader) else 0
    # Another's module may keep what it likes on itself, which a CUDA graph would not see.
    fixed = {"steps": steps, "batch_size": rows, "workers": workers, "optimiser": part, "capture": False}
    training = read_section(TrainingConfig, {**fixed, **settings})
    check_part("optimiser", training.optimiser, OPTIMISERS)
    check_part("schedule", training.schedule, SCHEDULES)
    check_training(training)
    return training


def check_module(module: Any, optimiser: Part | torch.optim.Optimizer) -> None:
    if not isinstance(module, nn.Module):
        raise UserError(f"fit trains a torch.nn.Module whose forward(batch) gives a loss, not {shown(module)}")
    if is_quantised(module):
        raise UserError(
            "a module whose weights are in int8 or int4 cannot be trained; load the run without a precision"
        )
    own = {id(p) for p in module.parameters()}
    if not own:
        raise UserError(f"the module ({type(module).__name__}) has no parameters to train")
    if isinstance(optimiser, torch.optim.Optimizer):
        others = sum(id(p) not in own for group in optimiser.param_groups for p in group["params"])
        if others:
            raise UserError(
                f"the optimiser has {counted(others, 'parameter')} that the module has not; make it from"
                " module.parameters()"
            )


def checked_folder(folder: Path, resume: bool, overwrite: bool) -> str:
    """The folder's name; a new fit begins in one of its own, or in that of one that it replaces."""
    if resume and overwrite:
        raise UserError("--resume continues a run and --overwrite replaces it; leave one of them out")
    if overwrite:
        check_replaceable(folder)
    elif not resume and folder.exists() and not is_abandoned(folder) and (not folder.is_dir() or any(folder.iterdir())):
        there = (
            "has a fit already; go on with it by resume=True, replace it by overwrite=True, or"
            if (folder / METRICS).exists()
            else "is there and not empty;"
        )
        raise UserError(f"{folder} {there} choose another folder")
    return str(folder)


def identity(
    module: nn.Module, settings: TrainingConfig, optimiser: Part | torch.optim.Optimizer, seed: int
) -> dict[str, Known]:
    """What a resumed fit must share with the one that was interrupted, besides its batches."""
    shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    count = sum(p.numel() for p in module.parameters())
    own = isinstance(optimiser, torch.optim.Optimizer)
    part = (
        type(optimiser).__name__ if own else f"{json.dumps(settings.optimiser)}, learning rate {settings.learning_rate}"
    )
    made = (
        {"class": type(optimiser).__name__}
        if own
        else {"part": settings.optimiser, "learning_rate": settings.learning_rate}
    )
    clipping = {"norm": settings.clip_norm, "value": settings.clip_value}
    about = f"{type(module).__name__} of {count:,} parameters, {digest(shapes)}"
    return {
        "module": Known({"class": type(module).__name__, "parameters": count, "shapes": shapes}, about),
        "optimiser": Known(made, part),
        "schedule": Known({"part": settings.schedule}, json.dumps(settings.schedule)),
        "clipping": Known(clipping, f"norm {settings.clip_norm}, value {settings.clip_value}"),
        "average": Known({"part": settings.average}, json.dumps(settings.average)),
        "precision": Known({"name": settings.precision}, settings.precision),
        "seed": Known({"seed": seed}, str(seed)),
    }


def batches_of(loader: DataLoader[Any] | Batches, seed: int) -> tuple[Batches, str, dict[str, Known]]:
    """The loader's batches by position, what they are in words, and what a resumed fit must find again."""
    if isinstance(loader, Batches):
        given, own = loader, loader.own
        own_rows = None if own is None else lambda *share: checked(own(*share))
        return (
            Batches(given.per_epoch, lambda epoch, batch: checked(given.get(epoch, batch)), own_rows),
            "batches by position",
            {},
        )
    if not isinstance(loader, DataLoader):
        raise UserError(f"fit takes a torch.utils.data.DataLoader, not {shown(loader)}")
    dataset, collate, rows = loader.dataset, loader.collate_fn, loader.batch_size
    if loader.worker_init_fn is not None:
        raise UserError(
            "fit's own processes make the batches and call no worker_init_fn; leave it out: seeds are derived from"
            " fit's own"
        )
    if isinstance(dataset, IterableDataset):
        raise UserError(
            f"{type(dataset).__name__} is an iterable dataset, which has no place to go back to when training is"
            " resumed; give a map-style one, with __len__ and __getitem__"
        )
    is_shuffled = shuffles(loader)
    size: int = len(dataset)  # type: ignore[arg-type]
    if not size or (loader.drop_last and size < (rows or 1)):
        raise UserError(
            f"the loader gives no batch: the dataset has {counted(size, 'example')}, a batch {rows or 1}; give it more"
            " data"
        )
    per_epoch = size // (rows or 1) if loader.drop_last else -(-size // (rows or 1))

    @lru_cache(maxsize=2)
    def order(epoch: int) -> list[int]:
        return np.random.default_rng([seed, epoch]).permutation(size).tolist() if is_shuffled else list(range(size))

    def get(epoch: int, batch: int) -> Given:
        with seeded(seed, epoch, batch):
            if rows is None:
                return checked(collate(dataset[order(epoch)[batch]]))
            return checked(collate(examples_of(dataset, order(epoch)[batch * rows : (batch + 1) * rows])))

    how = f"{counted(size, 'example')}, {rows or 'none'} a batch{', shuffled' if is_shuffled else ''}"
    name = type(dataset).__name__
    known = Known({"class": name, "examples": size, "rows": rows, "is_shuffled": is_shuffled}, f"{name} of {how}")
    return Batches(lambda epoch: per_epoch, get), how, {"data": known}


def shuffles(loader: DataLoader[Any]) -> bool:
    """Whether a loader takes examples in random order; one with another order than that and their own is refused."""
    sampler, size = loader.sampler, len(loader.dataset)  # type: ignore[arg-type]
    is_own_batches = loader.batch_size is None and loader.batch_sampler is not None
    if not is_own_batches and type(sampler) is SequentialSampler:
        return False
    if (
        not is_own_batches
        and type(sampler) is RandomSampler
        and not sampler.replacement
        and sampler.num_samples == size
    ):
        return True
    name = type(loader.batch_sampler if is_own_batches else sampler).__name__
    raise UserError(
        f"the loader's {name} draws an order that cannot be drawn again when training is resumed; give a DataLoader"
        " with shuffle=True or shuffle=False, or clew.core.batches.Batches(per_epoch, get), whose batch is a function"
        " of (epoch, number)"
    )


def examples_of(dataset: Dataset[Any], numbers: list[int]) -> list[Any]:
    """A batch's examples, all at once where the dataset can."""
    together = getattr(dataset, "__getitems__", None)
    return together(numbers) if callable(together) else [dataset[number] for number in numbers]


def checked(content: Any) -> Given:
    """A batch that can be cut by rows: tensors whose first axis is the rows."""
    found: set[int] = set()
    map_batch(lambda tensor: found.add(len(tensor) if tensor.dim() else -1), content)
    if len(found) != 1 or -1 in found:
        what = (
            "no tensor"
            if not found
            else f"tensors of {', '.join(str(n) if n >= 0 else 'no' for n in sorted(found))} rows"
        )
        raise UserError(
            f"a batch of the loader ({type(content).__name__}) has {what}; give tensors with the batch's rows as their"
            " first axis, in a tuple, list, dict, NamedTuple or dataclass (collate_fn makes them)"
        )
    return Given(content)


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Within this context what torch, NumPy and Python draw is derived from numbers; what they drew before goes on
    after it."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derived(*numbers))
            seed_others(derived(*numbers))
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def seed_others(number: int) -> None:
    """Python's and NumPy's generators, which torch's seed leaves alone."""
    random.seed(number)
    np.random.seed(number % 2**32)


def judge_of(evaluate: Evaluate | DataLoader[Any] | None) -> Any:
    """How a module is measured on the way and at the end; without an evaluation, not at all."""

    def judge(
        part: str,
        task: nn.Module,
        forward: Any,
        autocast: Autocast,
        interrupted: Callable[[], bool],
        *,
        final: bool = False,
        progress: OnProgress = no_progress,
    ) -> Score | None:
        if evaluate is None:
            return None
        was_training = task.training
        task.eval()
        try:
            with torch.no_grad():
                found = (
                    loader_loss(forward, evaluate, autocast)
                    if isinstance(evaluate, DataLoader)
                    else asked(evaluate, task, autocast)
                )
        finally:
            task.train(was_training)
        return Score(found, found["loss"], ", ".join(f"{name} {value:.4g}" for name, value in found.items()))

    return judge


def asked(evaluate: Evaluate, module: nn.Module, autocast: Autocast) -> dict[str, float]:
    """What the user's function measures, by the first process, for all of them."""

    def measure() -> str:
        with autocast():
            found = evaluate(module)
        measures = dict(found) if isinstance(found, Mapping) else {"loss": found}
        if "loss" not in measures:
            raise UserError(
                f"evaluate gave {', '.join(measures)}; give a loss, or measures by name with `loss` among them"
            )
        return json.dumps({name: float(value) for name, value in measures.items()})

    measures: dict[str, float] = json.loads(from_first(measure))
    return measures


def loader_loss(module: Any, loader: DataLoader[Any], autocast: Autocast) -> dict[str, float]:
    """The mean of every term over a loader's batches, each process reading its share of the rows; `loss` is their
    sum."""
    task, device = AsTask(module), next(module.parameters()).device
    sums: dict[str, Tensor] = {}
    for content in loader:
        batch, is_real = share_of(checked(content))
        with autocast():
            terms, _ = task(to_device(batch, device))
        for name, term in terms.items():
            pair = torch.stack([term.weight * term.sum, term.count.to(term.sum)]).double().cpu() * is_real
            sums[name] = sums.get(name, torch.zeros(2, dtype=torch.float64)) + pair
    if not sums:
        raise UserError("the loader to evaluate on gives no batch; give it examples")
    means = {
        name: float(total / max(count, 1))
        for name, (total, count) in ((n, sum_over_processes(s)) for n, s in sums.items())
    }
    return {"loss": sum(means.values()), **(means if len(means) > 1 else {})}
