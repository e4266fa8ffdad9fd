"""The four models of the table learn upright and level bars, in files in Fashion-MNIST's format, and have a row
each."""

import struct
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fashion_mnist import HEADER, MODELS, train_model
from clew.data import corpora

SMALL = {
    "2-D LSTM": ["model.dim=32", "task.input.size=4"],
    "row LSTM": ["model.dim=32"],
    "ViT": ["model.dim=48", "model.num_layers=2", "training.steps=150"],
    "ResNet": ["model.dim=32", "task.input.first_dim=8", "task.input.blocks=1"],
}


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An upright bar is label 0, a level one label 1, on noise."""
    (tmp_path / "fashion-mnist").mkdir()
    draw = np.random.default_rng(1)
    for part, count in (("train", 72), ("t10k", 24)):
        pixels, labels = draw.integers(0, 100, (count, 28, 28), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 2
        pixels[0::2, :, 10:18] += 150
        pixels[1::2, 10:18, :] += 150
        for name, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            (tmp_path / "fashion-mnist" / f"{part}-{name}-ubyte").write_bytes(idx(array))
    monkeypatch.setattr(corpora, "DEBIAN", str(tmp_path / "none"))
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_the_table_learns_and_has_its_row(model: str, bars: Path) -> None:
    steps = ["training.steps=40", "training.evaluate_every=40", "training.batch_size=12", "device=cpu"]
    row = train_model(model, [*steps, *SMALL[model]], bars / "runs")
    assert row.test >= 95 and row.steps >= 40 and row.parameters > 1000
    assert str(row).startswith(f"| {model} | `{MODELS[model]}` | {row.test:.2f} | ") and str(row).count(
        "|"
    ) == HEADER.split("\n")[0].count("|")
