"""NaN and infinity in the loss or the gradient of random steps: such a step leaves weights, optimiser, average and
carried state to the bit as they were, is counted and shown, and ten of them in a row end the training with a reason.

Three trials of four watch the loop from inside; the fourth is a whole run by the command.
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

from benchmarks.faults.children import done, own_folder
from benchmarks.faults.subjects import LSTM, TEXT, decoder_batches, decoder_training, text_beside
from benchmarks.faults.trials import Fault, Result, fault_in_sentence, in_this_process, put_through
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
    """A model and how it is trained, and what is in which step (from 0): a poison, in the loss or in its gradient."""

    subject: str
    optimiser: str
    accumulate: int
    poisons: dict[int, tuple[str, str]]

    @property
    def last(self) -> int | None:
        """The step, from 1, with which the training is given up, if it is."""
        steps = range(STEPS - MOST_SKIPPED + 1)
        return next(
            (step + MOST_SKIPPED for step in steps if all(step + i in self.poisons for i in range(MOST_SKIPPED))), None
        )


class Poisoned(nn.Module):
    """A task with something in its loss, or in the gradient of it, where `poison` says so: a place and a factor."""

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
    place, factor = poison
    loss: Tensor = terms["loss"].sum
    if place == "loss":
        return {"loss": terms["loss"]._replace(sum=loss * factor)}
    loss.register_hook(lambda gradient: gradient * factor)
    return terms


def run(count: int, seed: int) -> Result:
    with own_folder("divergence") as place:
        cases = iter([drawn(seed, number) for number in range(count)])
        fault = Fault(
            "divergence", lambda _: next(cases), lambda case: attempt(case, place), str, smaller, seconds=100.0
        )
        return put_through(fault, count, seed, in_this_process)


def drawn(seed: int, number: int) -> Case:
    chance = random.Random(f"divergence {seed} {number}")
    subject = ("lstm", "gpt", "decoder", "command")[number % 4]
    first, length = chance.randrange(STEPS), chance.choice([1, 2, 9, 10, 12])
    steps = {step for step in range(STEPS) if chance.random() < 0.15} | set(range(first, min(first + length, STEPS)))
    poisons = {step: (chance.choice(["loss", "gradient"]), chance.choice(list(POISONS))) for step in sorted(steps)}
    poisons = {step: ("loss", "nan") if kind == ("loss", "overflow") else kind for step, kind in poisons.items()}
    return Case(subject, chance.choice(list(OPTIMISERS)), chance.choice([1, 2]), poisons)


def smaller(case: Case) -> list[Case]:
    return [
        case._replace(poisons={step: kind for step, kind in case.poisons.items() if step != other})
        for other in case.poisons
    ]


def attempt(case: Case, place: Path) -> str:
    return by_the_command(case, place / "run") if case.subject == "command" else watched(case)


def watched(case: Case) -> str:
    """Step by step: what a poisoned one must leave alone is compared before and after."""
    inner, batches = built(case.subject)
    progress = Progress()

    def poison() -> tuple[str, float] | None:
        place, kind = case.poisons.get(progress.step, ("", ""))
        return (place, POISONS[kind]) if kind else None

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
            complaint = fault_in_sentence(str(error))
            assert not complaint, complaint
            assert (
                case.last == step + 1
                and f"{MOST_SKIPPED} steps in a row had no finite gradient (step {step + 1}:" in str(error)
            ), error
            assert equal(before, snapshot(task, optimiser, average, progress)), "the last step changed something"
            return "given up with a reason"
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
                "nothing changed in a step that was not skipped"
            )
    assert case.last is None, f"was not given up at step {case.last}"
    return "left everything as it was, and went on"


def by_the_command(case: Case, folder: Path) -> str:
    """A whole run: what a person sees, and what the metrics say."""
    shutil.rmtree(folder, ignore_errors=True)

    def do() -> int:
        plain, step = LanguageModel.forward, -1

        def forward(self: Any, batch: TokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
            nonlocal step
            terms, state = plain(self, batch, state)
            step += self.training
            place, kind = case.poisons.get(step, ("", "")) if self.training else ("", "")
            return with_poison(terms, (place, POISONS[kind]) if kind else None), state

        LanguageModel.forward = forward  # type: ignore[method-assign]
        os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
        settings = [*LSTM, f"data.train={text_beside(folder)}", f"training.steps={STEPS}"]
        return main(["train", "text-lstm", *settings, "--out", str(folder)])

    ended = done(do, folder.parent)
    last = case.last or STEPS
    shown = {int(line.split()[1]) for line in ended.err.splitlines() if "(skipped: not finite)" in line}
    recorded = {record["step"] for record in read_metrics(folder) if record.get("skipped")}
    expected = {step + 1 for step in case.poisons if step + 1 <= last} - {case.last}
    assert shown == recorded == expected, f"shown {len(shown)}, recorded {len(recorded)}, poisoned {len(expected)}"
    if case.last is None:
        assert ended.status == 0, ended.last
        return "a run showed every skipped step"
    assert ended.status == 2 and ended.last.startswith(f"clew: {MOST_SKIPPED} steps in a row had no finite gradient"), (
        ended.last
    )
    return "a run ended with a reason"


def built(name: str) -> tuple[Any, Batches]:
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
    plan = stream_plan(len(ids), 16, 16)  # a few batches an epoch, so that streams start anew
    return LanguageModel(body, tokenizer), Batches(
        lambda epoch: plan.num_batches, lambda epoch, number: plan.batch(ids, number)
    )


def snapshot(
    task: nn.Module, optimiser: torch.optim.Optimizer, average: Exponential, progress: Progress
) -> dict[str, list[Tensor]]:
    """All that a skipped step must leave alone."""
    tensors, numbers = split_optimiser(optimiser.state_dict())
    parts = {
        "weights": list(task.state_dict().values()),
        "optimiser": [
            *tensors.values(),
            *(torch.tensor(float(value)) for value in numbers["rest"].values() if value is not None),
        ],
        "average": [*average.means.values(), average.updates],
        "carried": list(leaves(progress.state)),
    }
    return {name: [tensor.detach().clone() for tensor in found] for name, found in parts.items()}


def equal(first: dict[str, list[Tensor]], second: dict[str, list[Tensor]]) -> bool:
    return not changed(first, second)


def changed(first: dict[str, list[Tensor]], second: dict[str, list[Tensor]]) -> list[str]:
    def same(name: str) -> bool:
        return len(first[name]) == len(second[name]) and all(map(torch.equal, first[name], second[name]))

    return [name for name in first if not same(name)]
