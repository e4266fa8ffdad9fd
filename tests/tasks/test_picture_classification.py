"""Picture classification: a folder per class is memorised, with each way to read a picture."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clew.cli.main import main
from clew.recipes.running import run_recipe

BARS = {"upright": (slice(None), slice(6, 10)), "level": (slice(6, 10), slice(None))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Bars on noise, twelve of each orientation."""
    draw = np.random.default_rng(1)
    for name, place in BARS.items():
        (tmp_path / "bars" / name).mkdir(parents=True)
        for number in range(12):
            pixels = draw.integers(0, 120, (16, 16, 3), dtype=np.uint8)
            pixels[place] += 120
            Image.fromarray(pixels).save(tmp_path / "bars" / name / f"{number}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("reader", "model"),
    [
        ("patches", "grid_lstm"),
        pytest.param("convolved", "bag", marks=pytest.mark.slow),
        pytest.param("patches", "bert", marks=pytest.mark.slow),
        pytest.param("rows", "recurrent", marks=pytest.mark.slow),
    ],
)
def test_orientations_of_bars_are_classified(
    folder: Path, reader: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [f"data.train={folder}/bars", f"data.valid={folder}/bars", "task.input=" + reader, "task.input.side=16"]
    sizes = [
        f"model.family={model}",
        "model.dim=32",
        "training.steps=100",
        "training.batch_size=8",
        "training.evaluate_every=50",
    ]
    more = ["task.input.size=4"] if reader == "patches" else []
    result = run_recipe(
        "classify-pictures", [*data, *sizes, *more, "training.learning_rate=0.005", "device=cpu"], out=folder / "run"
    )
    assert result.valid.measures["accuracy"] == 100
    file = str(folder / "bars" / "level" / "0.png")
    assert main(["predict", str(folder / "run"), file]) == 0
    label, probability, name = capsys.readouterr().out.strip().split("\t")
    assert (label, name) == ("level", file) and float(probability) > 0.5
