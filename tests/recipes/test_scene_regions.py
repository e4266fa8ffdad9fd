"""The value of edges: labels of regions depend on their neighbours, which one round cannot see."""

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
def test_regions_are_classified_with_edges_but_not_without(seed: int, tmp_path: Path) -> None:
    with_edges, without_edges = (accuracy(tmp_path, seed, num_rounds) for num_rounds in (3, 1))
    print(f"seed {seed}: {with_edges:.2f} with edges, {without_edges:.2f} without")
    assert with_edges > without_edges + 40
