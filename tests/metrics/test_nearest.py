import numpy as np
import pytest

from clew.core.errors import UserError
from clew.metrics.nearest import Nearest


def test_searching_in_blocks_equals_searching_at_once() -> None:
    draw = np.random.default_rng(1)
    rows, queries = draw.normal(size=(50, 4)).astype("f4"), draw.normal(size=(3, 4)).astype("f4")
    rows[7] = 0
    nearest = Nearest(queries, 6)
    for start in range(0, 50, 8):
        nearest.add(rows[start : start + 8])
    for query, neighbours in zip(queries, nearest.neighbours(), strict=True):
        cosines = {
            n: float(row @ query / np.linalg.norm(row) / np.linalg.norm(query)) for n, row in enumerate(rows) if n != 7
        }
        best = sorted(cosines, key=lambda n: -cosines[n])[:6]
        assert [row for row, _ in neighbours] == best
        assert [cosine for _, cosine in neighbours] == pytest.approx([cosines[n] for n in best], rel=1e-5)


def test_equal_cosines_keep_their_order_and_zero_vectors_are_left_out() -> None:
    nearest = Nearest(np.array([[1.0, 0.0]]), 3)
    nearest.add(np.array([[2.0, 0.0], [0.0, 0.0]]))
    nearest.add(np.array([[1.0, 0.0]]))
    assert nearest.neighbours() == [[(0, 1.0), (2, 1.0)]]
    with pytest.raises(
        UserError, match="vectors of 3 numbers cannot be compared with vectors of 2.*; take both from one run"
    ):
        nearest.add(np.zeros((1, 3)))
