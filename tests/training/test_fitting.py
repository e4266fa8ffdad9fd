"""clew's training loop with the user's own module and loader."""

import json
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import clew
from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.types import Term
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.training.checkpoints import checkpoint_folders
from clew.training.fitting import batches_of, fit
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.crossing import crossed
from tests.training.group import fit_together

TRUTH = torch.tensor([[1.0], [-2.0], [3.0]])


class Line(nn.Module):
    """y = x W, with dropout and random numbers of Python and NumPy, as in a user's module."""

    def __init__(self, dropout: float = 0.0, coins: bool = False):
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(3, 1)
        self.dropout = nn.Dropout(dropout)
        self.coins = coins

    def forward(self, batch: Any) -> Tensor:
        x, y = batch
        scale = 1.0 + (0.1 * random.random() + 0.1 * float(np.random.rand()) if self.coins and self.training else 0.0)
        return nn.functional.mse_loss(self.map(self.dropout(x)) * scale, y)


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Points on the line with noise from all three generators, as data augmentation adds."""

    def __init__(self, size: int = 22):
        self.x = torch.randn(size, 3, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        x = self.x[number]
        return x + 0.01 * torch.randn(3) + 0.01 * random.random() + 0.01 * float(np.random.rand()), x @ TRUTH


def points(size: int = 22) -> TensorDataset:
    x = torch.randn(size, 3, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, x @ TRUTH)


class Stopping(Silence):
    """Interrupts training at a step."""

    def __init__(self, at: int):
        self.at = at

    def step(self, record, steps, tokens_per_second) -> None:
        if record.step == self.at:
            signal.raise_signal(signal.SIGINT)


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in record.items() if k not in ("rows_per_second", "seconds")} for record in read_metrics(folder)
    ]


def assert_same(first: Path, second: Path) -> None:
    assert metrics_of(first) == metrics_of(second)
    for path in ("model.safetensors", f"checkpoints/{checkpoint_folders(first)[0].name}/model.safetensors"):
        expected, actual = read_weights(first / path), read_weights(second / path)
        assert expected.keys() == actual.keys() == {"map.weight", "map.bias"}
        assert all(torch.equal(value, actual[name]) for name, value in expected.items()), path


@pytest.mark.parametrize(("workers", "step"), crossed([0, 2], [3, 4, 7]))
def test_a_stopped_fit_resumes_bit_for_bit(tmp_path: Path, step: int, workers: int) -> None:
    """22 examples in batches of 8: the last batch of an epoch has 6, and step 7 is in the third epoch."""
    options: dict[str, Any] = {
        "steps": 10,
        "learning_rate": 0.05,
        "schedule": {"name": "cosine", "warmup": 0.2},
        "average": "ema",
        "accumulate": 3,
        "clip_norm": 0.5,
        "evaluate": DataLoader(points(9), batch_size=4),
        "evaluate_every": 4,
        "log_every": 1,
        "device": "cpu",
    }
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=workers)
    fit(Line(0.3, coins=True), loader, tmp_path / "straight", **options)
    with pytest.raises(Interrupted, match=rf"stopped at step {step} of 10; saved in"):
        fit(Line(0.3, coins=True), loader, tmp_path / "stopped", report=Stopping(step), **options)
    random.random(), np.random.rand(), torch.rand(1)  # another process has drawn other random numbers
    fit(Line(0.3, coins=True), loader, tmp_path / "stopped", resume=True, **options)
    assert_same(tmp_path / "straight", tmp_path / "stopped")


class Killed(BaseException):
    """Like SIGKILL, ends training without further writing."""


def test_a_killed_fit_resumes_from_its_last_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    class Killing(Silence):
        def step(self, record, steps, tokens_per_second) -> None:
            if record.step == 8:
                raise Killed

    options: dict[str, Any] = {"steps": 12, "save_every": 5, "log_every": 1, "device": "cpu"}
    loader = DataLoader(points(), batch_size=8, shuffle=True)
    fit(Line(0.3), loader, tmp_path / "straight", **options)
    with pytest.raises(Killed):
        fit(Line(0.3), loader, tmp_path / "killed", report=Killing(), **options)
    assert [path.name for path in checkpoint_folders(tmp_path / "killed")] == ["step-00000005"]
    fit(Line(0.3), loader, tmp_path / "killed", resume=True, **options)
    assert_same(tmp_path / "straight", tmp_path / "killed")


def test_fit_returns_the_module_of_its_best_evaluation(tmp_path: Path) -> None:
    loader = DataLoader(points(64), batch_size=16, shuffle=True)
    weights_seen: list[dict[str, Tensor]] = []

    def evaluate(module: Line) -> dict[str, float]:
        assert not module.training and not torch.is_grad_enabled()
        weights_seen.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
        return {"loss": [5.0, 1.0, 3.0, 7.0][len(weights_seen) - 1], "error": 2.0}

    fitted = clew.fit(
        Line(),
        loader,
        tmp_path / "line",
        steps=30,
        learning_rate=0.1,
        evaluate=evaluate,
        evaluate_every=10,
        device="cpu",
        quiet=True,
    )
    assert (fitted.step, fitted.best_step, fitted.folder) == (30, 20, tmp_path / "line")
    assert fitted.measures == {"loss": 7.0, "error": 2.0}
    assert all(torch.equal(value, fitted.module.state_dict()[name]) for name, value in weights_seen[1].items())
    losses = [record["train.loss"] for record in read_metrics(tmp_path / "line") if "train.loss" in record]
    assert losses[-1] < 0.5 * losses[0]


def test_fit_without_evaluation_keeps_the_last_weights(tmp_path: Path) -> None:
    module = Line()
    fitted = fit(module, DataLoader(points(), batch_size=8), tmp_path / "line", steps=5, device="cpu")
    assert fitted.module is module and not module.training
    stored = read_weights(tmp_path / "line" / "model.safetensors")
    last = read_weights(checkpoint_folders(tmp_path / "line")[0] / "model.safetensors")
    assert all(
        torch.equal(stored[name], tensor) and torch.equal(last[name], tensor)
        for name, tensor in module.state_dict().items()
    )
    assert (fitted.best_step, fitted.measures) == (5, {})


def test_an_epoch_has_every_example_once_and_a_ragged_last_batch() -> None:
    data = TensorDataset(torch.arange(22))
    batches, _, _ = batches_of(DataLoader(data, batch_size=8, shuffle=True), seed=3)
    epochs = [
        [batches.get(epoch, number).content[0].tolist() for number in range(batches.per_epoch(epoch))]
        for epoch in (0, 1)
    ]
    assert [[len(batch) for batch in epoch] for epoch in epochs] == [[8, 8, 6]] * 2
    assert [sorted(sum(epoch, [])) for epoch in epochs] == [list(range(22))] * 2
    assert epochs[0] != epochs[1]
    dropping, _, _ = batches_of(DataLoader(data, batch_size=8, drop_last=True), seed=3)
    assert dropping.per_epoch(0) == 2 and dropping.get(0, 1).content[0].tolist() == list(range(8, 16))
    single, _, _ = batches_of(DataLoader(TensorDataset(torch.arange(6).view(3, 2)), batch_size=None), seed=3)
    assert single.per_epoch(0) == 3 and single.get(0, 1).content[0].tolist() == [2, 3]


@pytest.mark.parametrize("rows", [7, 8])
def test_micro_batches_do_not_change_the_weights(tmp_path: Path, rows: int) -> None:
    weights = []
    for accumulate in (1, 3):
        module = Line().double()
        data = TensorDataset(*(tensor.double() for tensor in points().tensors))
        loader = DataLoader(data, batch_size=rows)
        fit(module, loader, tmp_path / str(accumulate), steps=6, learning_rate=0.1, accumulate=accumulate, device="cpu")
        weights.append(module.map.weight.detach())
    assert torch.allclose(*weights, rtol=1e-12, atol=0)


class Tokens(nn.Module):
    """A mean over tokens whose number varies between rows: a term with a count computed from the batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5, 5).double()

    def counts(self, batch: Any) -> dict[str, Tensor]:
        return {"loss": (batch["tokens"] != 0).sum()}

    def forward(self, batch: Any) -> Term:
        tokens, mask = batch["tokens"], batch["tokens"] != 0
        losses = nn.functional.cross_entropy(self.table(tokens).transpose(1, 2), tokens, reduction="none")
        return Term((losses * mask).sum(), mask.sum())


def test_terms_have_exact_means_over_micro_batches(tmp_path: Path) -> None:
    rows = [{"tokens": torch.tensor([1, 2, 3, 4][:n] + [0] * (4 - n))} for n in (1, 4, 2, 3, 4, 1)]
    weights = []
    for accumulate in (1, 4):
        module = Tokens()
        fit(
            module,
            DataLoader(rows, batch_size=5),
            tmp_path / str(accumulate),
            steps=4,
            accumulate=accumulate,
            device="cpu",
        )
        weights.append(module.table.weight.detach())
    assert torch.allclose(*weights, rtol=1e-12, atol=0)


def test_the_loss_of_a_loader_is_its_mean_over_rows(tmp_path: Path) -> None:
    x, y = points(10).tensors
    fitted = fit(
        Line(),
        DataLoader(points(), batch_size=8),
        tmp_path / "line",
        steps=2,
        evaluate=DataLoader(points(10), batch_size=4),
        device="cpu",
    )
    with torch.no_grad():
        assert fitted.measures["loss"] == pytest.approx(float(fitted.module((x, y))), rel=1e-5)


def test_a_user_defined_optimiser_keeps_its_rates_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    loader, options = DataLoader(points(), batch_size=8, shuffle=True), {"steps": 6, "device": "cpu", "log_every": 1}

    def parts() -> tuple[Line, torch.optim.Optimizer]:
        module = Line()
        groups = [{"params": [module.map.weight], "lr": 0.1}, {"params": [module.map.bias]}]
        return module, torch.optim.RMSprop(groups, lr=0.01, momentum=0.5)

    for name, at in (("straight", 0), ("stopped", 2)):
        module, optimiser = parts()
        if at:
            with pytest.raises(Interrupted):
                fit(module, loader, tmp_path / name, optimiser=optimiser, report=Stopping(at), **options)
            module, optimiser = parts()
        fit(module, loader, tmp_path / name, optimiser=optimiser, resume=bool(at), **options)
        assert [group["lr"] for group in optimiser.param_groups] == [0.1, 0.01]
    assert_same(tmp_path / "straight", tmp_path / "stopped")


def fit_shares(folder: Path) -> None:
    data = TensorDataset(*(tensor.double() for tensor in points().tensors))
    evaluate = DataLoader(data, batch_size=5)
    fit(
        Line().double(),
        DataLoader(data, batch_size=7, shuffle=True),
        folder,
        steps=6,
        evaluate=evaluate,
        log_every=1,
        device="cpu",
    )


@pytest.mark.slow
def test_several_processes_learn_the_same_as_one(tmp_path: Path) -> None:
    """Batches have 7, 7, 7 and 1 rows: in the last, the second of two processes has no row."""
    fit_shares(tmp_path / "alone")
    fit_together(2, tmp_path / "together", fit_shares)
    for alone, together in zip(metrics_of(tmp_path / "alone"), metrics_of(tmp_path / "together"), strict=True):
        assert alone == pytest.approx(together, rel=1e-9)
    weights = [read_weights(tmp_path / name / "model.safetensors")["map.weight"] for name in ("alone", "together")]
    assert torch.allclose(*weights, rtol=1e-9, atol=0)


def test_resume_starts_a_new_fit_if_there_is_none(tmp_path: Path) -> None:
    loader = DataLoader(points(), batch_size=8)
    assert fit(Line(), loader, tmp_path / "line", steps=2, resume=True, device="cpu").step == 2
    assert fit(Line(), loader, tmp_path / "line", steps=4, resume=True, device="cpu").step == 4


def test_fit_accepts_batches_by_position(tmp_path: Path) -> None:
    batches = Batches(lambda epoch: 2, lambda epoch, number: points(4).tensors)
    assert fit(Line(), batches, tmp_path / "line", steps=3, device="cpu").step == 3


@dataclass(frozen=True)
class Points:
    """A batch as a dataclass with a field that is not a tensor."""

    x: Tensor
    y: Tensor
    about: str


class NamedLine(Line):
    def forward(self, batch: Points) -> Tensor:
        assert batch.about == "points"
        return super().forward((batch.x, batch.y))


def as_points(rows: Any) -> Points:
    x, y = torch.utils.data.default_collate(rows)
    return Points(x, y, "points")


def test_a_dataclass_batch_trains_like_a_tuple(tmp_path: Path) -> None:
    fits = [
        fit(
            module,
            DataLoader(points(), batch_size=7, collate_fn=collate),
            tmp_path / name,
            steps=6,
            accumulate=2,
            learning_rate=0.1,
        )
        for name, module, collate in (("tuple", Line(), None), ("dataclass", NamedLine(), as_points))
    ]
    weights = [fitted.module.map.weight for fitted in fits]
    torch.testing.assert_close(*weights, rtol=0, atol=0)
    assert not torch.equal(weights[0], Line().map.weight)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(points())


class Unmeasured(Dataset[Any]):
    def __getitem__(self, number: int) -> Any:
        return points()[number]


LOADERS: dict[str, tuple[Any, str]] = {
    "a list": ([1, 2], r"fit takes a torch.utils.data.DataLoader, not \[1, 2\]"),
    "iterable": (
        DataLoader(Endless(), batch_size=2),
        "Endless is an iterable dataset, which cannot continue at a position when training is",
    ),
    "no length": (
        DataLoader(Unmeasured(), batch_size=2, sampler=range(4)),  # type: ignore[arg-type]
        "Unmeasured has no __len__, which fit needs to number its batches; add it",
    ),
    "weighted": (
        DataLoader(points(), batch_size=2, sampler=WeightedRandomSampler([1.0] * 22, 22)),
        (
            "the order of the loader's WeightedRandomSampler cannot be repeated when training is resumed; pass a"
            " DataLoader with"
        ),
    ),
    "own batches": (
        DataLoader(points(), batch_sampler=BatchSampler(SequentialSampler(points()), 3, False)),
        "the order of the loader's BatchSampler cannot be repeated",
    ),
    "empty": (
        DataLoader(points(3), batch_size=4, drop_last=True),
        "the loader has no batches: the dataset has 3 examples, and a batch 4; add data, or lower batch_size",
    ),
    "strings": (
        DataLoader(["a", "b"], batch_size=2),
        r"a batch of the loader \(list\) has no tensors; let collate_fn return tensors with",
    ),
    "ragged": (
        DataLoader([0, 1], batch_size=2, collate_fn=lambda rows: (torch.zeros(2), torch.zeros(3))),
        (
            r"a batch of the loader \(tuple\) has tensors with 2, 3 rows; let collate_fn return tensors with the"
            r" batch's rows as their first axis"
        ),
    ),
    "workers": (
        DataLoader(points(), batch_size=2, worker_init_fn=print),
        "fit makes batches in its own processes, which do not call worker_init_fn; leave it out: fit seeds them itself",
    ),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_that_cannot_be_replayed_is_rejected(tmp_path: Path, name: str) -> None:
    loader, sentence = LOADERS[name]
    with pytest.raises(UserError, match=sentence):
        fit(Line(), loader, tmp_path / "line", steps=2, device="cpu")


class ReturnsLoss(nn.Module):
    def __init__(self, loss: Any, **methods: Any):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.loss = loss
        for name, method in methods.items():
            setattr(self, name, method)

    def forward(self, batch: Any) -> Any:
        return self.loss(self.weight)


MODULES: dict[str, tuple[Any, str]] = {
    "a function": (
        print,
        "fit trains a torch.nn.Module whose forward\\(batch\\) returns a loss, not <built-in function print>",
    ),
    "no parameters": (nn.ReLU(), r"the module \(ReLU\) has no parameters to train"),
    "a vector": (
        ReturnsLoss(lambda w: w),
        r"the module's loss has the shape \[2\]; return one number, the mean over the batch's rows",
    ),
    "a number": (
        ReturnsLoss(lambda w: 1.0),
        r"the module's forward\(batch\) returned 1.0; return the loss as a tensor with one number, or a dict of terms",
    ),
    "a constant": (
        ReturnsLoss(lambda w: torch.tensor(1.0)),
        "the module's loss does not depend on its parameters, so there is nothing to train; compute the loss from them",
    ),
    "other terms": (
        ReturnsLoss(lambda w: {"nll": Term(w.sum(), torch.tensor(2))}),
        r"the module returns the terms nll, but counts loss; add a method counts\(batch\)",
    ),
    "a mean that is counted": (
        ReturnsLoss(lambda w: w.sum(), counts=lambda batch: {"loss": torch.tensor(1)}),
        r"which is for terms, but returns a loss; return Term\(sum, count\), or remove the method counts",
    ),
}


class TakesTwo(Line):
    def forward(self, x: Any, y: Any) -> Tensor:  # type: ignore[override]
        return super().forward((x, y))


class WithExtraState(nn.Linear):
    def get_extra_state(self) -> Any:
        return {"calls": 3}


MODULES |= {
    "a lazy layer": (
        nn.LazyLinear(1),
        r"the module \(LazyLinear\) has lazy layers without parameters yet; call it once on a batch before fit",
    ),
    "two arguments": (
        TakesTwo(),
        r"^TakesTwo.forward takes \(x: Any, y: Any\), but fit calls forward\(batch\) with the whole batch of the"
        r" loader; take it apart in the method: `def forward\(self, batch\): x, y = batch`, and return the loss$",
    ),
    "a loss that is not finite": (
        ReturnsLoss(lambda w: w.sum() * float("nan")),
        r"^no step had a finite gradient \(loss nan, gradient norm nan\), so the weights have not changed in 2 steps;"
        " look for nan or inf in the data and in the loss, or lower training.learning_rate$",
    ),
    "an extra state": (
        WithExtraState(3, 1),
        r"the module's _extra_state is \{'calls': 3\}, but checkpoints hold tensors only; store it as a buffer, or"
        " leave out get_extra_state",
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_without_a_valid_loss_is_rejected(tmp_path: Path, name: str) -> None:
    module, sentence = MODULES[name]
    with pytest.raises(UserError, match=sentence):
        fit(module, DataLoader(points(), batch_size=8), tmp_path / "line", steps=2, device="cpu")


def test_skipped_steps_are_counted_at_the_end(tmp_path: Path) -> None:
    class Spoilt(Line):
        def forward(self, batch: Any) -> Tensor:
            x, _ = batch
            return super().forward(batch) * (float("nan") if x.mean() > 0 else 1.0)

    class Said(Silence):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def say(self, text: str) -> None:
            self.texts.append(text)

    said = Said()
    data = points(16)
    skipped = sum(bool(data.tensors[0][first : first + 4].mean() > 0) for first in range(0, 16, 4))
    assert 0 < skipped < 4
    fit(Spoilt(), DataLoader(data, batch_size=4), tmp_path / "line", steps=4, device="cpu", report=said)
    assert f"{skipped} of 4 steps changed nothing, because the loss or the gradient was not finite" in said.texts


def test_a_failing_evaluation_saves_a_checkpoint_to_resume_from(tmp_path: Path) -> None:
    loader, failures = DataLoader(points(), batch_size=8), [ZeroDivisionError("mine")]

    def evaluate(module: Any) -> float:
        if failures:
            raise failures.pop()
        return float(module.map.weight.detach().sum())

    keywords = {"steps": 6, "evaluate": evaluate, "evaluate_every": 3, "device": "cpu"}
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(Line(), loader, tmp_path / "line", **keywords)
    assert [folder.name for folder in checkpoint_folders(tmp_path / "line")] == ["step-00000003"]
    fit(Line(), loader, tmp_path / "line", resume=True, **keywords)
    fit(Line(), loader, tmp_path / "whole", **keywords)
    assert_same(tmp_path / "line", tmp_path / "whole")


def test_unknown_and_invalid_settings_are_rejected_with_their_names(tmp_path: Path) -> None:
    loader = DataLoader(points(), batch_size=8)
    with pytest.raises(
        UserError,
        match=r"fit has no setting 'epochs'; did you mean 'steps'\? settings: learning_rate, schedule, clip_norm",
    ):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, epochs=3)  # type: ignore[call-arg]
    with pytest.raises(
        UserError, match=r"fit has no setting 'lr'; did you mean learning_rate\? settings: learning_rate"
    ):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, lr=0.1)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="steps must be at least 1, not 0"):
        clew.fit(Line(), loader, tmp_path / "line", steps=0)
    with pytest.raises(UserError, match="unknown optimiser 'adm'; did you mean 'adam'"):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, optimiser="adm")
    with pytest.raises(UserError, match=r"the schedule's warmup \(-3\) must be at least 0; set schedule.warmup"):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, schedule={"name": "linear", "warmup": -3})
    with pytest.raises(UserError, match=r"batch_size \(8\) must be at least accumulate \(9\)"):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, accumulate=9)
    with pytest.raises(
        UserError,
        match="the optimiser has 2 parameters that the module does not have; build it from module.parameters()",
    ):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, optimiser=torch.optim.SGD(Line().parameters(), lr=0.1))
    with pytest.raises(UserError, match="the loader in evaluate= has no batches; add examples to its dataset"):
        clew.fit(Line(), loader, tmp_path / "empty", steps=2, evaluate=DataLoader([]), device="cpu", quiet=True)
    with pytest.raises(UserError, match="evaluate= takes a DataLoader or a function of the module, not 3"):
        clew.fit(Line(), loader, tmp_path / "line", steps=2, evaluate=3, device="cpu")  # type: ignore[arg-type]
    for seed in (-1, 1.5, None, True, 2**63):
        with pytest.raises(
            UserError, match=r"seed takes a whole number from 0 to 2\^63 - 1, not .*; for example seed=1"
        ):
            clew.fit(Line(), loader, tmp_path / "line", steps=2, seed=seed)  # type: ignore[arg-type]
    for answer in (None, {"loss": "low"}, torch.ones(2)):
        evaluate: Any = Mock(return_value=answer)
        with pytest.raises(UserError, match="evaluate returned .* as `loss`; return one number for each metric"):
            clew.fit(Line(), loader, tmp_path / "mock", steps=2, evaluate=evaluate, overwrite=True, quiet=True)
    with pytest.raises(
        UserError, match="evaluate returned accuracy; return a loss, or metrics by name that include `loss`"
    ):
        clew.fit(
            Line(),
            loader,
            tmp_path / "line",
            steps=2,
            evaluate=lambda module: {"accuracy": 1.0},
            device="cpu",
            quiet=True,
        )


def test_a_folder_in_use_is_rejected(tmp_path: Path) -> None:
    loader = DataLoader(points(), batch_size=8)
    fit(Line(), loader, tmp_path / "line", steps=2, device="cpu")
    with pytest.raises(
        UserError, match="line already has a fit; resume it with resume=True, replace it with overwrite=True, or choose"
    ):
        fit(Line(), loader, tmp_path / "line", steps=2, device="cpu")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(UserError, match="notes exists and is not an empty folder; choose another folder"):
        fit(Line(), loader, tmp_path / "notes", steps=2, device="cpu")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"seed": 2}, "seed"),
        ({"learning_rate": 0.5}, "optimiser"),
        ({"schedule": "linear"}, "schedule"),
        ({"clip_norm": None}, "clipping"),
    ],
)
def test_a_resumed_fit_keeps_its_settings(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    loader = DataLoader(points(), batch_size=8)
    fit(Line(), loader, tmp_path / "line", steps=2, device="cpu")
    with pytest.raises(UserError, match=f"cannot resume from .*: the {what} changed since it was written"):
        fit(Line(), loader, tmp_path / "line", steps=3, device="cpu", resume=True, **change)
    with pytest.raises(
        UserError,
        match="the data changed since .* TensorDataset of 22 examples, 8 a batch; now TensorDataset of 9 examples",
    ):
        fit(Line(), DataLoader(points(9), batch_size=8), tmp_path / "line", steps=3, device="cpu", resume=True)


def test_losses_and_evaluations_are_written_to_the_metrics(tmp_path: Path) -> None:
    fit(
        Line(),
        DataLoader(points(), batch_size=8),
        tmp_path / "line",
        steps=2,
        device="cpu",
        log_every=1,
        evaluate=lambda module: 3.5,
    )
    records = [json.loads(line) for line in (tmp_path / "line" / "metrics.jsonl").read_text().splitlines()]
    assert [record.get("valid.loss") for record in records] == [None, None, 3.5, None]
    assert set(records[0]) == {
        "step",
        "train.loss",
        "epoch",
        "gradient_norm",
        "learning_rate",
        "rows_per_second",
        "seconds",
    }
    assert records[-1]["best.valid.loss"] == 3.5 and records[-1]["best.step"] == 2
