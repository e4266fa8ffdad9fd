"""What edges are worth: labels of regions hang on their neighbours, which one round does not see."""

from pathlib import Path

import pytest

from clew.recipes.running import run_recipe

SMALL = ["data.size=800", "training.steps=150", "training.evaluate_every=150", "device=cpu"]


def accuracy(folder: Path, seed: int, num_rounds: int) -> float:
    settings = [*SMALL, f"seed={seed}", f"model.layer.num_rounds={num_rounds}"]
    result = run_recipe("scene-regions", settings, out=folder / f"{seed}-{num_rounds}")
    assert result.test is not None
    return result.test.measures["accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_regions_are_told_by_their_edges_and_not_by_the_same_layer_without(seed: int, tmp_path: Path) -> None:
    read, alone = (accuracy(tmp_path, seed, num_rounds) for num_rounds in (3, 1))
    print(f"seed {seed}: {read:.2f} with edges, {alone:.2f} without")
    assert read > alone + 40
