"""Importance of heads against differences of the loss, row by row."""

import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.core.types import Term
from clew.inspection.heads import heads_off, layers_with_heads
from clew.inspection.importance import (
    curve_view,
    head_importance,
    leave_one_out,
    normalise_layers,
    quality_curve,
    rank_heads,
)
from clew.inspection.recording import intervene
from clew.models import MODELS
from clew.sources.tokens import Tokens


class Guessing(nn.Module):
    """A next-token task with a GPT of two layers, in float64; the loss is the sum over a batch's tokens."""

    def __init__(self):
        super().__init__()
        kind = MODELS["gpt"]
        self.body = kind.build(kind.config(family="gpt", dim=8, num_heads=2, num_layers=2), Tokens(7))
        self.output = nn.Linear(8, 7)

    def losses(self, batch):
        logits = self.output(self.body(batch)[0][:, :-1])
        return nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:], reduction="none").sum(1)

    def forward(self, batch, state=None):
        loss = self.losses(batch).sum()
        return {"loss": Term(loss, torch.tensor(batch.numel()), 2.0)}, None


@pytest.fixture(scope="module")
def task():
    torch.manual_seed(0)
    built = Guessing().double().eval()
    for part in built.parameters():
        nn.init.normal_(part, std=0.5)
    return built


@pytest.fixture(scope="module")
def batches():
    return [torch.randint(0, 7, (3, 5)), torch.randint(0, 7, (2, 4))]


def test_importance_is_the_mean_absolute_derivative_of_each_row(task, batches):
    importance = head_importance(task, batches)
    step = 1e-5
    for layer in layers_with_heads(task):
        for head, name in enumerate(layer.heads):

            def scaled(factor, head=head):
                return lambda weights: (
                    weights * torch.ones(2, 1, 1).double().index_fill(0, torch.tensor([head]), factor)
                )

            slopes = []
            for batch in batches:
                sides = []
                for factor in (1 + step, 1 - step):
                    with torch.no_grad(), intervene(task, {layer.weights: scaled(factor)}):
                        sides.append(task.losses(batch))
                slopes.append(2.0 * (sides[0] - sides[1]).abs() / (2 * step))  # the term has weight 2
            assert importance[name] == pytest.approx(float(torch.cat(slopes).mean()), rel=1e-5)


def test_importance_leaves_the_model_unchanged(task, batches):
    before = {name: value.clone() for name, value in task.state_dict().items()}
    task.train()
    head_importance(task, batches)
    assert task.training and all(parameter.grad is None for parameter in task.parameters())
    assert all(torch.equal(before[name], value) for name, value in task.state_dict().items())
    task.eval()


def test_importance_without_data_is_rejected(task):
    with pytest.raises(
        UserError, match="importance of heads needs examples, and there are none; give at least one batch"
    ):
        head_importance(task, [])


def test_the_importances_of_a_layer_have_norm_one():
    assert normalise_layers({"1.1": 3.0, "1.2": 4.0, "cross.1.1": 2.0, "2.1": 0.0}) == {
        "1.1": 0.6,
        "1.2": 0.8,
        "cross.1.1": 1.0,
        "2.1": 0.0,
    }


def test_leaving_out_a_head_costs_the_increase_of_the_loss(task, batches):
    def quality():
        with torch.no_grad():
            return -float(task.losses(batches[0]).sum())

    changes = leave_one_out(task, quality)
    with heads_off(task, ["2.1"]):
        without = quality()
    assert changes["2.1"] == pytest.approx(quality() - without) and list(changes) == ["1.1", "1.2", "2.1", "2.2"]


def test_the_curve_drops_heads_from_the_least_important(task, batches):
    order = rank_heads({"1.1": 3, "1.2": 1, "2.1": 2, "2.2": 4})
    assert order == ["1.2", "2.1", "1.1", "2.2"]

    def measure():
        with torch.no_grad():
            return {"loss": float(task.losses(batches[0]).sum())}

    points = quality_curve(task, order, [2, 4, 0], measure)
    assert [point.kept for point in points] == [4, 2, 0] and points[0].measures == measure()
    with heads_off(task, ["1.2", "2.1"]):
        assert points[1].measures == pytest.approx(measure())
    view = curve_view(points, "loss", {"1.1": 1.0}, "a note")
    assert view.parts[0].series[0].x == [100, 50, 0] and view.facts["points"][1]["kept"] == 2
