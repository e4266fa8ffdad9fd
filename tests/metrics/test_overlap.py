import numpy as np
import pytest

from clew.metrics.overlap import count_overlap
from clew.metrics.statistics import score
from tests.references.overlap import iou

LABELS = ("ground", "road", "tree", "never")


@pytest.mark.parametrize("seed", range(4))
def test_intersection_over_union_equals_a_loop_over_cells(seed):
    draw = np.random.default_rng(seed)
    gold, predicted = draw.integers(-1, 3, 200), draw.integers(0, 3, 200)
    overlap = count_overlap(gold, predicted, LABELS)
    expected = {LABELS[label]: value for label, value in iou(gold.tolist(), predicted.tolist(), len(LABELS)).items()}
    assert overlap.by_label == pytest.approx(expected)
    assert overlap.mean == pytest.approx(sum(expected.values()) / len(expected))


def test_intersection_over_union_of_three_cells_by_hand():
    overlap = count_overlap(np.array([0, 0, 1]), np.array([0, 1, 1]), LABELS)
    assert overlap.by_label == {"ground": 0.5, "road": 0.5} and overlap.mean == 0.5
    assert "road                  50.00          1          2" in overlap.describe()


def test_counts_of_two_parts_add_to_those_of_both():
    draw = np.random.default_rng(1)
    gold, predicted = draw.integers(0, 4, 60), draw.integers(0, 4, 60)
    halves = count_overlap(gold[:20], predicted[:20], LABELS) + count_overlap(gold[20:], predicted[20:], LABELS)
    assert halves.by_label == count_overlap(gold, predicted, LABELS).by_label


def test_the_mean_is_computed_from_the_counts_of_each_picture():
    draw = np.random.default_rng(2)
    pictures = [(draw.integers(-1, 3, 30), draw.integers(0, 3, 30)) for _ in range(5)]
    whole = count_overlap(*(np.concatenate(side) for side in zip(*pictures, strict=True)), LABELS)
    rows = [count_overlap(gold, predicted, LABELS).counts() for gold, predicted in pictures]
    assert score("iou", rows) == pytest.approx(100 * whole.mean)
