"""The norm-preserving penalty (Pascanu et al. 2013): gradients reach further back; micro-batches do not change it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import clew
from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.types import Term
from clew.layers.cells import Elman
from clew.layers.recurrent import Recurrent
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import sgd
from clew.training.records import Progress
from clew.training.schedules import Constant
from tests.runs.small import GPT, LSTM

SETTINGS = [
    *LSTM,
    "model.cell=elman",
    "training.steps=6",
    "training.evaluate_every=6",
    "training.save_every=3",
    "training.log_every=1",
]


class FirstSign(nn.Module):
    """Predicts the sign of the first number of a long sequence; the other numbers are noise."""

    def __init__(self, dim: int):
        super().__init__()
        torch.manual_seed(0)
        self.layer = Recurrent(Elman(1, dim))
        self.output = nn.Linear(dim, 1)
        with torch.no_grad():
            nn.init.orthogonal_(self.layer.cell.hidden_weight)
            self.layer.cell.hidden_weight *= 0.6

    def forward(self, batch: Tensor, state: Any = None) -> tuple[dict[str, Term], None]:
        scores = self.output(self.layer(batch)[0][:, -1])[:, 0]
        losses = nn.functional.binary_cross_entropy_with_logits(
            scores, (batch[:, 0, 0] > 0).to(scores), reduction="sum"
        )
        return {"loss": Term(losses, self.counts(batch)["loss"])}, None

    def counts(self, batch: Tensor) -> dict[str, Tensor]:
        return {"loss": torch.tensor(len(batch))}

    @torch.no_grad()
    def accuracy(self, batch: Tensor) -> float:
        scores = self.output(self.layer(batch)[0][:, -1])[:, 0]
        return ((scores > 0) == (batch[:, 0, 0] > 0)).double().mean().item()

    def reach(self, batch: Tensor) -> float:
        """|dE / dx_1| / |dE / dx_T| for the states x and an error at the end, averaged over rows."""
        cell, states = self.layer.cell, []
        inputs, weight = cell.inputs(batch)
        carried = cell.initial_state(len(batch), like=batch)
        for t in range(batch.shape[1]):
            _, carried = cell((inputs[:, t], weight), carried)
            states.append(carried)
        first, last = torch.autograd.grad(self.output(carried).sum(), [states[0], states[-1]])
        return (first.norm(dim=-1) / last.norm(dim=-1)).mean().item()


def noise(epoch: int, number: int = 0) -> Tensor:
    drawn = 0.1 * torch.randn(32, 30, 1, generator=torch.Generator().manual_seed(epoch))
    drawn[:, 0] = drawn[:, 0].sign()
    return drawn


def trained(penalty: float, steps: int = 60, **options: Any) -> tuple[FirstSign, list[Any]]:
    task = FirstSign(8)
    batches = Batches(lambda epoch: 1, noise)
    rate = sgd(task.parameters(), 0.1)
    records = list(
        train(
            task,
            batches,
            rate,
            Constant(steps),
            StepOptions(clip_norm=1.0, norm_penalty=penalty, **options),
            steps=steps,
            progress=Progress(),
        )
    )
    return task, records


@pytest.mark.slow
def test_gradients_reach_thirty_steps_back_with_the_penalty_and_vanish_without() -> None:
    """With the penalty, an error after thirty steps reaches the first step, and the sign of the first number is learnt.
    Without it, neither happens."""
    (plain, _), (penalised, records) = trained(0.0), trained(2.0)
    assert records[-1].losses["norm"] < 0.25 * records[0].losses["norm"]
    batch = torch.cat([noise(10**6 + number) for number in range(10)])
    assert plain.reach(batch) < 1e-5 and plain.accuracy(batch) < 0.6
    assert penalised.reach(batch) > 0.1 and penalised.accuracy(batch) > 0.99


def test_micro_batches_do_not_change_the_penalty() -> None:
    whole, cut = (trained(0.5, 3, accumulate=parts) for parts in (1, 4))
    for one, other in zip(whole[1], cut[1], strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-4) and one.counts == other.counts
        assert one.counts["norm"] == 32
    for one, other in zip(whole[0].parameters(), cut[0].parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_run_with_the_penalty_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("story.txt").write_text("the thread was cut and she went in\n" * 40)
    settings = [*SETTINGS, "data.train=story.txt", "training.norm_penalty=0.5"]
    whole = clew.train("text-lstm", *settings, out="whole", quiet=True)
    clew.train("text-lstm", *settings, "training.steps=3", out="half", quiet=True)
    again = clew.train("text-lstm", *settings, out="half", resume=True, quiet=True)
    for one, other in zip(whole.task.parameters(), again.task.parameters(), strict=True):
        assert torch.equal(one, other)
    assert '"train.norm"' in Path("whole/metrics.jsonl").read_text()


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("text-gpt", GPT, "training__norm_penalty needs recurrent layers, and this gpt model has none"),
        (
            "text-lstm",
            [*SETTINGS, "training.compile=true"],
            "which compiled, recomputed and sharded layers do not support; set",
        ),
        (
            "text-lstm",
            [*SETTINGS, "training.recompute=true"],
            "which compiled, recomputed and sharded layers do not support",
        ),
    ],
)
def test_the_penalty_is_rejected_where_it_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, settings: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("story.txt").write_text("the thread was cut and she went in\n" * 40)
    with pytest.raises(UserError, match=sentence):
        clew.train(recipe, *settings, "data.train=story.txt", "training.norm_penalty=0.5", out="run", quiet=True)
