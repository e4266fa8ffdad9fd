"""Train a user's module with a user's DataLoader, in the training loop of runs: with checkpoints, signals and resuming.

The loop gets batches by position. So the order of examples is drawn here from (seed, epoch), not by the loader's
sampler. The random numbers of a batch are derived from (seed, epoch, batch), and those of a step from (seed, step). So
a resumed run continues bit for bit.
"""

import inspect
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
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

from clew.core.batches import Batches, map_batch, num_rows, to_device
from clew.core.config import Part, check_part
from clew.core.errors import UserError, counted, did_you_mean, shown
from clew.core.files import json_hash
from clew.core.identity import Known
from clew.core.processes import (
    derived,
    first_alone,
    from_first,
    is_first,
    process_group,
    rank,
    rows_of_process,
    sum_over_processes,
    world_size,
)
from clew.core.types import State, Term
from clew.core.wording import argument
from clew.layers.precision import is_quantised
from clew.metrics.score import Score
from clew.runs.config import TrainingConfig, meant_by
from clew.runs.directory import is_abandoned, read_weights, write_environment
from clew.runs.folder.replacing import check_replaceable
from clew.runs.folder.run_files import ENVIRONMENT, METRICS, WEIGHTS
from clew.runs.settings.explaining import read_section
from clew.tasks.learning import Autocast
from clew.training.callbacks import Callback, Ended
from clew.training.driving import drive, keep_weights, open_loggers, restore_checkpoint
from clew.training.optimisers import OPTIMISERS
from clew.training.precision import precision
from clew.training.problem import OnProgress, Problem, no_progress
from clew.training.report import Report, Silence
from clew.training.run import check_training, own_device, watch_training
from clew.training.run_folder import RunFolder, locked_run, make_folder, writing
from clew.training.schedules import SCHEDULES
from clew.training.trainer import Trainer, build_trainer

Evaluate = Callable[[Any], float | Mapping[str, float]]
"""Evaluates a module: returns a loss, or metrics by name that include `loss`. The lowest loss is the best."""


class Settings(TypedDict, total=False):
    """The fields of the config section `training` that apply to any module, with the defaults of that section."""

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
"""Arguments of `clew.fit` that are not settings."""


@dataclass(frozen=True, repr=False)
class Fit:
    """The result of `fit`: the module with the weights of the best evaluation, or of the last step if there was no
    evaluation."""

    module: Any
    folder: Path
    step: int
    best_step: int
    measures: dict[str, float]
    """The metrics of the best evaluation; empty if there was no evaluation."""
    seconds: float

    def __repr__(self) -> str:
        measures = "".join(f", {name} {value:.4g}" for name, value in self.measures.items())
        best = f", best at step {self.best_step}" if self.measures and self.best_step != self.step else ""
        return f"Fit({str(self.folder)!r}: {type(self.module).__name__}, {counted(self.step, 'step')}{best}{measures})"


class UserBatch(NamedTuple):
    """A batch from the user's loader, wrapped so that the training loop does not take its fields for its own."""

    content: Any


class AsTask(nn.Module):
    """A user's module as a task. A loss is a mean over the rows: a term with the sum loss * rows and the count rows. A
    module that returns terms (sum, count) must have a method `counts(batch)`, which counts them from the batch only."""

    def __init__(self, module: Any):
        super().__init__()
        self.module = module

    def forward(self, batch: UserBatch, state: State = None) -> tuple[dict[str, Term], State]:
        if self.module.training:
            seed_python_and_numpy(torch.initial_seed())  # the loop has set torch's seed for this step
        output = self.module(batch.content)
        if isinstance(output, tuple) and not isinstance(output, Term):
            output = output[0]  # a task of clew also returns its state
        if isinstance(output, Tensor):
            return {"loss": self.mean_term(output, batch)}, None
        terms = {"loss": output} if isinstance(output, Term) else output
        if not isinstance(terms, dict) or not all(isinstance(term, Term) for term in terms.values()):
            raise UserError(
                f"the module's forward(batch) returned {shown(output)}; return the loss as a tensor with one number, or"
                ' a dict of terms, such as {"loss": clew.core.types.Term(sum, count)}'
            )
        if set(self.counts(batch)) != set(terms):
            raise UserError(
                f"the module returns the terms {', '.join(terms)}, but counts {', '.join(self.counts(batch))}; add a"
                " method counts(batch) that returns the count of every term by name, from the batch only"
            )
        return terms, None

    def mean_term(self, loss: Tensor, batch: UserBatch) -> Term:
        if loss.numel() != 1:
            raise UserError(
                f"the module's loss has the shape {list(loss.shape)}; return one number, the mean over the batch's rows"
            )
        if torch.is_grad_enabled() and not loss.requires_grad:
            raise UserError(
                "the module's loss does not depend on its parameters, so there is nothing to train; compute the loss"
                " from them"
            )
        if hasattr(self.module, "counts"):
            raise UserError(
                "the module has a method counts, which is for terms, but returns a loss; return Term(sum, count), or"
                " remove the method counts"
            )
        rows = num_rows(batch)
        loss = loss.float() if loss.dtype in (torch.bfloat16, torch.float16) else loss
        return Term(loss.reshape(()) * rows, torch.full((), rows, device=loss.device))

    def counts(self, batch: UserBatch) -> dict[str, Tensor]:
        if not hasattr(self.module, "counts"):
            return {"loss": torch.tensor(num_rows(batch))}
        counts = self.module.counts(batch.content)
        return counts if isinstance(counts, dict) else {"loss": counts}


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
    """Train a module whose `forward(batch)` returns a loss, on the batches of a loader, for `steps` steps. Checkpoints
    and metrics are written to `folder`.

    `evaluate` is a loader on which the mean loss is computed, or a function of the module. `resume` continues bit for
    bit from the newest checkpoint in the folder, or starts from step 0 if there is none. `overwrite` replaces the fit
    in the folder. On a signal, saves and raises `Interrupted`.
    """
    report = report if report is not None and is_first() else Silence()
    folder = Path(folder)
    check_seed(seed)
    with process_group(device), watch_training(folder, report, callbacks) as watchers:
        batches, about, known = batches_of(loader, seed)
        training = read_settings(loader, steps, optimiser, dict(settings))
        check_module(module, optimiser)
        check_evaluate(evaluate)
        from_first(lambda: check_folder(folder, resume, overwrite))  # on one process, before any of them writes there
        own, reason = own_device(device)
        module.to(own)
        known = {**identity(module, training, optimiser, seed), **known}
        parts = ("valid",) if evaluate is not None else ()
        problem = Problem(module, {}, batches, parts, build_judge(evaluate), about, known)
        report.say(f"device {reason}")
        report.say(f"{sum(p.numel() for p in module.parameters()):,} parameters; {about}; writing to {folder}")
        first_alone(lambda: make_folder(folder))
        with locked_run(folder), precision(training, own) as autocast:
            if overwrite and rank() == 0:
                RunFolder(folder, overwrite=True).remove()
            built = optimiser if isinstance(optimiser, torch.optim.Optimizer) else None
            # The trainer gets no variable here, because it keeps the process group alive, which must end after this.
            return fit_with(
                build_trainer(training, folder, problem, seed, autocast, watchers, optimiser=built, as_task=AsTask),
                resume,
            )


def fit_with(trainer: Trainer, resume: bool) -> Fit:
    """Train to the end; with `resume`, from the newest checkpoint."""
    trainer.unit = "rows"
    if rank() == 0 and not (trainer.folder / ENVIRONMENT).exists():
        with writing("the run", trainer.folder):
            write_environment(trainer.folder, trainer.device)
    if resume:
        restore_checkpoint(trainer)
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
    first_alone(lambda: None)  # every process reads the weights that the first has written
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


def read_settings(
    loader: DataLoader[Any] | Batches, steps: int, optimiser: Part | torch.optim.Optimizer, settings: dict[str, Any]
) -> TrainingConfig:
    """Validate the settings of `fit` as the config section `training`."""
    for name in settings:
        if name not in Settings.__annotations__:
            suggested = (meant_by(name) or "").removeprefix("training.")
            known = (*ARGUMENTS, *Settings.__annotations__)
            hint = (
                f"; did you mean {suggested}?" if suggested in Settings.__annotations__ else did_you_mean(name, known)
            )
            raise UserError(f"fit has no setting {name!r}{hint} settings: {', '.join(Settings.__annotations__)}")
    rows = (loader.batch_size if isinstance(loader, DataLoader) else None) or settings.get(
        "accumulate", 1
    ) * world_size()
    part = "adamw" if isinstance(optimiser, torch.optim.Optimizer) else optimiser
    workers = loader.num_workers if isinstance(loader, DataLoader) else 0
    # A user's module may store values on itself in Python, which the replay of a CUDA graph would not do.
    fixed = {"steps": steps, "batch_size": rows, "workers": workers, "optimiser": part, "capture": False}
    training = read_section(TrainingConfig, {**fixed, **settings})
    check_part("optimiser", training.optimiser, OPTIMISERS)
    check_part("schedule", training.schedule, SCHEDULES)
    check_training(training)
    return training


def check_module(module: Any, optimiser: Part | torch.optim.Optimizer) -> None:
    if not isinstance(module, nn.Module):
        raise UserError(f"fit trains a torch.nn.Module whose forward(batch) returns a loss, not {shown(module)}")
    if is_quantised(module):
        raise UserError(
            "a module whose weights are in int8 or int4 cannot be trained; load the run without a precision"
        )
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        raise UserError(
            f"the module ({type(module).__name__}) has lazy layers without parameters yet; call it once on a batch"
            " before fit"
        )
    if (arguments := needed_arguments(module)) is not None:
        raise UserError(
            f"{type(module).__name__}.forward takes {arguments}, but fit calls forward(batch) with the whole batch"
            " of the loader; take it apart in the method: `def forward(self, batch): x, y = batch`, and return the loss"
        )
    stored = module.state_dict()
    if (name := next((name for name, value in stored.items() if not isinstance(value, Tensor)), None)) is not None:
        raise UserError(
            f"the module's {name} is {shown(stored[name])}, but checkpoints hold tensors only; store it as a buffer, or"
            " leave out get_extra_state"
        )
    own = {id(p) for p in module.parameters()}
    if not own:
        raise UserError(f"the module ({type(module).__name__}) has no parameters to train")
    if isinstance(optimiser, torch.optim.Optimizer):
        foreign = sum(id(p) not in own for group in optimiser.param_groups for p in group["params"])
        if foreign:
            raise UserError(
                f"the optimiser has {counted(foreign, 'parameter')} that the module does not have; build it from"
                " module.parameters()"
            )


def needed_arguments(module: nn.Module) -> str | None:
    """Return the arguments of a module's forward if it cannot be called with one, the batch; else None."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):  # forward is not a Python function
        return None
    try:
        signature.bind(None)
    except TypeError:
        return f"({', '.join(map(str, signature.parameters.values()))})"
    return None


def check_seed(seed: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UserError(f"seed takes a whole number from 0 to 2^63 - 1, not {shown(seed)}; for example seed=1")


def check_evaluate(evaluate: Any) -> None:
    if not (evaluate is None or callable(evaluate) or isinstance(evaluate, DataLoader)):
        raise UserError(f"evaluate= takes a DataLoader or a function of the module, not {shown(evaluate)}")


def check_folder(folder: Path, resume: bool, overwrite: bool) -> str:
    """Check that a fit can be written to the folder, and return its name. A new fit needs an empty folder, or one to
    overwrite."""
    if resume and overwrite:
        raise UserError(
            f"{argument('resume', True)} continues a run and {argument('overwrite', True)} replaces it; leave one of"
            " them out"
        )
    if overwrite:
        check_replaceable(folder)
    elif not resume and folder.exists() and not is_abandoned(folder) and (not folder.is_dir() or any(folder.iterdir())):
        problem = (
            "already has a fit; resume it with resume=True, replace it with overwrite=True, or"
            if (folder / METRICS).exists()
            else "exists and is not an empty folder;"
        )
        raise UserError(f"{folder} {problem} choose another folder")
    return str(folder)


def identity(
    module: nn.Module, settings: TrainingConfig, optimiser: Part | torch.optim.Optimizer, seed: int
) -> dict[str, Known]:
    """Return the facts that must not change when a fit is resumed, apart from its batches."""
    shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    count = sum(p.numel() for p in module.parameters())
    is_built = isinstance(optimiser, torch.optim.Optimizer)
    part = (
        type(optimiser).__name__
        if is_built
        else f"{json.dumps(settings.optimiser)}, learning rate {settings.learning_rate}"
    )
    facts = (
        {"class": type(optimiser).__name__}
        if is_built
        else {"part": settings.optimiser, "learning_rate": settings.learning_rate}
    )
    clipping = {"norm": settings.clip_norm, "value": settings.clip_value}
    about = f"{type(module).__name__} of {count:,} parameters, {json_hash(shapes)[:8]}"
    return {
        "module": Known({"class": type(module).__name__, "parameters": count, "shapes": shapes}, about),
        "optimiser": Known(facts, part),
        "schedule": Known({"part": settings.schedule}, json.dumps(settings.schedule)),
        "clipping": Known(clipping, f"norm {settings.clip_norm}, value {settings.clip_value}"),
        "average": Known({"part": settings.average}, json.dumps(settings.average)),
        "precision": Known({"name": settings.precision}, settings.precision),
        "seed": Known({"seed": seed}, str(seed)),
    }


def batches_of(loader: DataLoader[Any] | Batches, seed: int) -> tuple[Batches, str, dict[str, Known]]:
    """Return the loader's batches by position, a description of them, and the facts that must not change when a fit is
    resumed."""
    if isinstance(loader, Batches):
        source, own = loader, loader.own
        own_rows = None if own is None else lambda *share: check_batch(own(*share))
        return (
            Batches(source.per_epoch, lambda epoch, batch: check_batch(source.get(epoch, batch)), own_rows),
            "batches by position",
            {},
        )
    if not isinstance(loader, DataLoader):
        raise UserError(f"fit takes a torch.utils.data.DataLoader, not {shown(loader)}")
    dataset, collate, rows = loader.dataset, loader.collate_fn, loader.batch_size
    if loader.worker_init_fn is not None:
        raise UserError(
            "fit makes batches in its own processes, which do not call worker_init_fn; leave it out: fit seeds them"
            " itself"
        )
    if isinstance(dataset, IterableDataset):
        raise UserError(
            f"{type(dataset).__name__} is an iterable dataset, which cannot continue at a position when training is"
            " resumed; pass a map-style dataset, with __len__ and __getitem__"
        )
    if not hasattr(dataset, "__len__"):
        raise UserError(f"{type(dataset).__name__} has no __len__, which fit needs to number its batches; add it")
    is_shuffled = shuffles(loader)
    size: int = len(dataset)
    if not size or (loader.drop_last and size < (rows or 1)):
        raise UserError(
            f"the loader has no batches: the dataset has {counted(size, 'example')}, and a batch {rows or 1}; add"
            " data, or lower batch_size"
        )
    per_epoch = size // (rows or 1) if loader.drop_last else -(-size // (rows or 1))

    @lru_cache(maxsize=2)
    def order(epoch: int) -> list[int]:
        return np.random.default_rng([seed, epoch]).permutation(size).tolist() if is_shuffled else list(range(size))

    def get(epoch: int, batch: int) -> UserBatch:
        with seeded(seed, epoch, batch):
            if rows is None:
                return check_batch(collate(dataset[order(epoch)[batch]]))
            return check_batch(collate(examples_of(dataset, order(epoch)[batch * rows : (batch + 1) * rows])))

    how = f"{counted(size, 'example')}, {rows or 'none'} a batch{', shuffled' if is_shuffled else ''}"
    name = type(dataset).__name__
    known = Known({"class": name, "examples": size, "rows": rows, "is_shuffled": is_shuffled}, f"{name} of {how}")
    return Batches(lambda epoch: per_epoch, get), how, {"data": known}


def shuffles(loader: DataLoader[Any]) -> bool:
    """Whether a loader takes examples in random order. Raises an error unless their order is random or sequential."""
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
        f"the order of the loader's {name} cannot be repeated when training is resumed; pass a DataLoader with"
        " shuffle=True or shuffle=False, or clew.core.batches.Batches(per_epoch, get), where get(epoch, number) returns"
        " a batch"
    )


def examples_of(dataset: Dataset[Any], numbers: list[int]) -> list[Any]:
    """Return the examples of a batch, by one call if the dataset has `__getitems__`."""
    get_items = getattr(dataset, "__getitems__", None)
    return get_items(numbers) if callable(get_items) else [dataset[number] for number in numbers]


def check_batch(content: Any) -> UserBatch:
    """Check that a batch can be split by rows: that the first axis of all tensors is the rows."""
    lengths: set[int] = set()
    map_batch(lambda tensor: lengths.add(len(tensor) if tensor.dim() else -1), content)
    if len(lengths) != 1 or -1 in lengths:
        what = (
            "no tensors"
            if not lengths
            else f"tensors with {', '.join(str(n) if n >= 0 else 'no' for n in sorted(lengths))} rows"
        )
        raise UserError(
            f"a batch of the loader ({type(content).__name__}) has {what}; let collate_fn return tensors with the"
            " batch's rows as their first axis, in a tuple, list, dict, NamedTuple or dataclass"
        )
    return UserBatch(content)


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Within this context the random numbers of torch, NumPy and Python are derived from `numbers`. Afterwards their
    generators have their earlier states."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derived(*numbers))
            seed_python_and_numpy(derived(*numbers))
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def seed_python_and_numpy(number: int) -> None:
    """Seed the generators of Python and NumPy, which torch's seed does not change."""
    random.seed(number)
    np.random.seed(number % 2**32)


def build_judge(evaluate: Evaluate | DataLoader[Any] | None) -> Any:
    """Return the function that evaluates a module during and after training; without `evaluate`, it returns None."""

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
                measures = (
                    loader_loss(forward, evaluate, autocast)
                    if isinstance(evaluate, DataLoader)
                    else call_evaluate(evaluate, task, autocast)
                )
        finally:
            task.train(was_training)
        return Score(measures, measures["loss"], ", ".join(f"{name} {value:.4g}" for name, value in measures.items()))

    return judge


def call_evaluate(evaluate: Evaluate, module: nn.Module, autocast: Autocast) -> dict[str, float]:
    """Call the user's function on the first process, and return its metrics on all of them."""

    def measure() -> str:
        with autocast():
            answer = evaluate(module)
        measures = dict(answer) if isinstance(answer, Mapping) else {"loss": answer}
        if "loss" not in measures:
            raise UserError(
                f"evaluate returned {', '.join(measures)}; return a loss, or metrics by name that include `loss`"
            )
        return json.dumps({name: number_of(value, name) for name, value in measures.items()})

    measures: dict[str, float] = json.loads(from_first(measure))
    return measures


def number_of(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"evaluate returned {shown(value)} as `{name}`; return one number for each metric") from None


def loader_loss(module: Any, loader: DataLoader[Any], autocast: Autocast) -> dict[str, float]:
    """Return the mean of every term over a loader's batches, and their sum as `loss`. Each process evaluates its share
    of the rows."""
    task, device = AsTask(module), next(module.parameters()).device
    sums: dict[str, Tensor] = {}
    for content in loader:
        batch, is_real = rows_of_process(check_batch(content))
        with autocast():
            terms, _ = task(to_device(batch, device))
        for name, term in terms.items():
            pair = torch.stack([term.weight * term.sum, term.count.to(term.sum)]).double().cpu() * is_real
            sums[name] = sums.get(name, torch.zeros(2, dtype=torch.float64)) + pair
    if not sums:
        raise UserError("the loader in evaluate= has no batches; add examples to its dataset")
    means = {
        name: float(total / max(count, 1))
        for name, (total, count) in ((n, sum_over_processes(s)) for n, s in sums.items())
    }
    return {"loss": sum(means.values()), **(means if len(means) > 1 else {})}
