"""The signature of a captured pass, and when passes are captured. test_on_gpu compares captured with eager passes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clew.core.types import State
from clew.data.plans import TokenBatch
from clew.training import captured
from clew.training.captured import CapturedPasses, signature, tensors_of


def batch(rows: int = 2, **changes: Any) -> TokenBatch:
    return TokenBatch(torch.zeros(rows, 3, dtype=torch.long), torch.ones(rows, 3, dtype=torch.long))._replace(**changes)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 3},
        {"mask": torch.ones(2, 3)},
        {"mask": torch.ones(2, 3, dtype=torch.bool)},
        {"within": torch.ones(2, 3)},
    ],
    ids=["rows", "a mask", "its type", "another field"],
)
def test_batches_of_other_shapes_have_other_signatures(change: dict[str, Any]) -> None:
    assert signature(batch(**change)) != signature(batch()) == signature(batch())


def test_fields_that_only_the_loop_reads_are_ignored() -> None:
    assert signature(batch(fresh=False, rate=0.5)) == signature(batch())


def test_values_other_than_tensors_are_part_of_the_signature() -> None:
    assert signature({"a": 1, "b": [torch.zeros(2), None]}) == signature({"a": 1, "b": [torch.ones(2), None]})
    assert signature({"a": 1}) != signature({"a": 2})
    assert signature([torch.zeros(2)]) != signature((torch.zeros(2),))


class Tape:
    """A fake CUDA graph that calls the function again."""

    def __init__(self, function: Any) -> None:
        self.replay = function


class Linear(nn.Linear):
    runs = 0

    def loss(self, batch: Any, state: State, counts: dict[str, Tensor]) -> tuple[dict[str, Tensor], State]:
        self.runs += 1
        loss = self(batch).square().sum() / counts["loss"]
        loss.backward()
        return {"loss": loss.detach()}, None


def passes_of(monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> tuple[Linear, CapturedPasses]:
    def capture(function: Any, pool: Any) -> Tape:
        if fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        function()
        return Tape(lambda: None)

    monkeypatch.setattr(captured, "capture", capture)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    torch.manual_seed(1)
    task = Linear(3, 2)
    return task, CapturedPasses(task.loss, task)


def run_pass(passes: CapturedPasses, x: Tensor) -> float:
    for parameter in passes.parameters:
        parameter.grad = None
    return float(passes(lambda: None, x, None, {"loss": torch.tensor(2.0)})[0]["loss"])


def test_the_second_batch_of_a_shape_is_captured_and_later_ones_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    task, passes = passes_of(monkeypatch)
    x = torch.randn(4, 3)
    expected = run_pass(passes, x)
    gradient = task.weight.grad
    assert task.runs == 1 and not passes.captured
    assert run_pass(passes, x) == pytest.approx(expected) and task.runs == 2 and len(passes.captured) == 1
    torch.testing.assert_close(task.weight.grad, gradient)
    run_pass(passes, x)
    assert task.runs == 2, "a replay runs no Python"
    run_pass(passes, torch.randn(5, 3))
    assert task.runs == 3, "another shape runs eagerly first"
    passes.forget()
    run_pass(passes, x)
    assert task.runs == 4 and not passes.captured


def test_graphs_of_all_shapes_share_their_gradient_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    task, passes = passes_of(monkeypatch)
    pointers = set()
    for x in (torch.randn(4, 3), torch.randn(5, 3)):
        run_pass(passes, x)
        expected = [parameter.grad for parameter in task.parameters()]
        run_pass(passes, x)
        torch.testing.assert_close([parameter.grad for parameter in task.parameters()], expected)
        pointers.add(tuple(parameter.grad.data_ptr() for parameter in task.parameters()))
    assert len(pointers) == 1 and len(passes.captured) == 2


def test_a_pass_that_cannot_be_captured_runs_eagerly_after_a_few_attempts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "clew.training")
    task, passes = passes_of(monkeypatch, fails=True)
    x = torch.randn(4, 3)
    losses = [run_pass(passes, x) for _ in range(8)]
    assert losses == [losses[0]] * 8 and task.weight.grad is not None
    assert (
        caplog.text.count("a training step runs eagerly: operation not permitted when stream is capturing")
        == captured.MOST_FAILURES
    )


def test_tensors_of_the_inputs_are_listed_in_copying_order() -> None:
    first, second, count = torch.zeros(1), torch.ones(2), torch.tensor(3.0)
    tensors = tensors_of(batch(), (first, {"a": second}), {"loss": count})
    assert [tensor.shape for tensor in tensors[:2]] == [(2, 3), (2, 3)]
    assert tensors[2] is first and tensors[3] is second and tensors[4] is count
