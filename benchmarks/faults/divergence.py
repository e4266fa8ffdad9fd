"""NaN and infinity in the loss or the gradient of random steps. Such a step must be reported as skipped and leave the
weights, optimiser, average and carried state unchanged, bit for bit. Ten of them in a row must end the training with a
message.

Three of four trials check the training loop after every step; the fourth runs the whole command.
"""

import math
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.faults.children import run_child, temporary_folder
from benchmarks.faults.subjects import LSTM, TEXT, decoder_batches, decoder_training, text_beside
from benchmarks.faults.trials import Fault, Result, in_this_process, message_problem, run_trials
from clew.cli.main import main
from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.state import leaves
from clew.core.types import State, Term
from clew.data.plans import TokenBatch, stream_plan
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.runs.folder.run_files import read_metrics
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.text.train import train_character
from clew.training.averaging import Exponential
from clew.training.backward import StepOptions
from clew.training.checkpoints import split_optimiser
from clew.training.loop import train
from clew.training.optimisers import OPTIMISERS
from clew.training.records import MOST_SKIPPED, Progress, Record
from clew.training.schedules import Constant

STEPS = 24
POISONS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "overflow": 3e38}


class Case(NamedTuple):
    """A model, its training, and the poison of each poisoned step (from 0): where it is inserted, and its kind."""

    subject: str
    optimiser: str
    accumulate: int
    poisons: dict[int, tuple[str, str]]

    @property
    def last(self) -> int | None:
        """The step (from 1) with which the training must stop, if any."""
        steps = range(STEPS - MOST_SKIPPED + 1)
        return next(
            (step + MOST_SKIPPED for step in steps if all(step + i in self.poisons for i in range(MOST_SKIPPED))), None
        )


class Poisoned(nn.Module):
    """A task whose loss, or its gradient, is multiplied by a factor if `poison` returns one with its target."""

    def __init__(self, task: Any, poison: Callable[[], tuple[str, float] | None]):
        super().__init__()
        self.task = task
        self.poison = poison
        self.counts = task.counts

    def forward(self, batch: Any, state: State = None) -> tuple[dict[str, Term], State]:
        terms, state = self.task(batch, state)
        return with_poison(terms, self.poison()), state


def with_poison(terms: dict[str, Term], poison: tuple[str, float] | None) -> dict[str, Term]:
    if poison is None:
        return terms
    target, factor = poison
    loss: Tensor = terms["loss"].sum
    if target == "loss":
        return {"loss": terms["loss"]._replace(sum=loss * factor)}
    loss.register_hook(lambda gradient: gradient * factor)
    return terms


def run(count: int, seed: int) -> Result:
    with temporary_folder("divergence") as workspace:
        cases = iter([draw_case(seed, number) for number in range(count)])
        fault = Fault(
            "divergence", lambda _: next(cases), lambda case: attempt(case, workspace), str, smaller, seconds=100.0
        )
        return run_trials(fault, count, seed, in_this_process)


def draw_case(seed: int, number: int) -> Case:
    rng = random.Random(f"divergence {seed} {number}")
    subject = ("lstm", "gpt", "decoder", "command")[number % 4]
    first, length = rng.randrange(STEPS), rng.choice([1, 2, 9, 10, 12])
    steps = {step for step in range(STEPS) if rng.random() < 0.15} | set(range(first, min(first + length, STEPS)))
    poisons = {step: (rng.choice(["loss", "gradient"]), rng.choice(list(POISONS))) for step in sorted(steps)}
    poisons = {step: ("loss", "nan") if kind == ("loss", "overflow") else kind for step, kind in poisons.items()}
    return Case(subject, rng.choice(list(OPTIMISERS)), rng.choice([1, 2]), poisons)


def smaller(case: Case) -> list[Case]:
    return [
        case._replace(poisons={step: kind for step, kind in case.poisons.items() if step != removed})
        for removed in case.poisons
    ]


def attempt(case: Case, workspace: Path) -> str:
    return check_command(case, workspace / "run") if case.subject == "command" else check_loop(case)


def check_loop(case: Case) -> str:
    """Train step by step, and check that a poisoned step changes nothing."""
    inner, batches = build(case.subject)
    progress = Progress()

    def poison() -> tuple[str, float] | None:
        target, kind = case.poisons.get(progress.step, ("", ""))
        return (target, POISONS[kind]) if kind else None

    task = Poisoned(inner, poison)
    optimiser, average = OPTIMISERS[case.optimiser](task.parameters(), 0.01), Exponential(task)
    carry = case.subject == "lstm"
    steps = train(
        task,
        batches,
        optimiser,
        Constant(STEPS),
        StepOptions(seed=1, carry=carry, accumulate=case.accumulate, clip_norm=1.0),
        steps=STEPS,
        progress=progress,
        average=average,
    )
    for step in range(STEPS):
        before = snapshot(task, optimiser, average, progress)
        try:
            record: Record = next(steps)
        except UserError as error:
            problem = message_problem(str(error))
            assert not problem, problem
            assert (
                case.last == step + 1
                and f"{MOST_SKIPPED} steps in a row had no finite gradient (step {step + 1}:" in str(error)
            ), error
            assert equal(before, snapshot(task, optimiser, average, progress)), "the last step changed something"
            return "stopped with a message"
        assert record.skipped == (step in case.poisons), f"skipped is {record.skipped}, poison {case.poisons.get(step)}"
        assert math.isfinite(record.loss) or record.skipped
        if record.skipped:
            if carry and batches.get(0, progress.batch - 1).fresh:
                before["carried"] = []
            assert equal(before, after := snapshot(task, optimiser, average, progress)), (
                f"changed: {changed(before, after)}"
            )
        else:
            assert not equal(before, snapshot(task, optimiser, average, progress)), (
                "a step that was not skipped changed nothing"
            )
    assert case.last is None, f"did not stop at step {case.last}"
    return "changed nothing and continued"


def check_command(case: Case, folder: Path) -> str:
    """Check the output and the metrics of a whole run."""
    shutil.rmtree(folder, ignore_errors=True)

    def train_poisoned() -> int:
        plain, step = LanguageModel.forward, -1

        def forward(self: Any, batch: TokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
            nonlocal step
            terms, state = plain(self, batch, state)
            step += self.training
            target, kind = case.poisons.get(step, ("", "")) if self.training else ("", "")
            return with_poison(terms, (target, POISONS[kind]) if kind else None), state

        LanguageModel.forward = forward  # type: ignore[method-assign]
        os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
        settings = [*LSTM, f"data.train={text_beside(folder)}", f"training.steps={STEPS}"]
        return main(["train", "text-lstm", *settings, "--out", str(folder)])

    process = run_child(train_poisoned, folder.parent)
    last = case.last or STEPS
    printed = {int(line.split()[1]) for line in process.err.splitlines() if "(skipped: not finite)" in line}
    recorded = {record["step"] for record in read_metrics(folder) if record.get("skipped")}
    expected = {step + 1 for step in case.poisons if step + 1 <= last} - {case.last}
    assert printed == recorded == expected, (
        f"printed {len(printed)}, recorded {len(recorded)}, poisoned {len(expected)}"
    )
    if case.last is None:
        assert process.status == 0, process.last_line
        return "a run reported every skipped step"
    assert process.status == 2 and process.last_line.startswith(
        f"clew: {MOST_SKIPPED} steps in a row had no finite gradient"
    ), process.last_line
    return "a run stopped with a message"


def build(name: str) -> tuple[Any, Batches]:
    torch.manual_seed(1)
    if name == "decoder":
        return decoder_training(dropout=0.1).task, decoder_batches()
    tokenizer = train_character([TEXT])
    if name == "lstm":
        body = build_recurrent(RecurrentConfig(cell="lstm", dim=12, dropout=0.1), Tokens(tokenizer.vocabulary))
    else:
        body = build_gpt(
            GPTConfig(dim=12, num_layers=1, num_heads=2, max_length=16, dropout=0.1), Tokens(tokenizer.vocabulary)
        )
    ids = torch.tensor(tokenizer.encode(TEXT)).numpy()
    plan = stream_plan(len(ids), 16, 16)  # a few batches per epoch, so that streams start again
    return LanguageModel(body, tokenizer), Batches(
        lambda epoch: plan.num_batches, lambda epoch, number: plan.batch(ids, number)
    )


def snapshot(
    task: nn.Module, optimiser: torch.optim.Optimizer, average: Exponential, progress: Progress
) -> dict[str, list[Tensor]]:
    """Copy everything that a skipped step must not change."""
    optimiser_tensors, numbers = split_optimiser(optimiser.state_dict())
    parts = {
        "weights": list(task.state_dict().values()),
        "optimiser": [
            *optimiser_tensors.values(),
            *(torch.tensor(float(value)) for value in numbers["rest"].values() if value is not None),
        ],
        "average": [*average.means.values(), average.updates],
        "carried": list(leaves(progress.state)),
    }
    return {name: [tensor.detach().clone() for tensor in tensors] for name, tensors in parts.items()}


def equal(first: dict[str, list[Tensor]], second: dict[str, list[Tensor]]) -> bool:
    return not changed(first, second)


def changed(first: dict[str, list[Tensor]], second: dict[str, list[Tensor]]) -> list[str]:
    def same(name: str) -> bool:
        return len(first[name]) == len(second[name]) and all(map(torch.equal, first[name], second[name]))

    return [name for name in first if not same(name)]
