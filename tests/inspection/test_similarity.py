import numpy as np
import pytest

from clew.core.errors import UserError
from clew.inspection.similarity import cka_matrix, classical_scaling, head_divergences, linear_cka
from tests.references import representations as reference


@pytest.mark.parametrize("widths", [(3, 3), (2, 7), (20, 5)])
def test_cka_equals_its_kernel_form(widths):
    generator = np.random.default_rng(0)
    x, y = (generator.normal(1.0, 2.0, (10, width)) for width in widths)
    assert linear_cka(x, y) == pytest.approx(reference.cka(x, y), abs=1e-12)


def test_cka_ignores_rotations_and_scales():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(12, 4))
    turn, _ = np.linalg.qr(generator.normal(size=(4, 4)))
    assert linear_cka(x, 3 * x @ turn + 5) == pytest.approx(1)
    assert linear_cka(x, np.ones((12, 2))) == 0


def test_cka_of_unequal_numbers_of_rows_is_rejected():
    with pytest.raises(UserError, match="row by row, but there are 3 and 4"):
        linear_cka(np.ones((3, 2)), np.ones((4, 2)))


def test_the_cka_matrix_of_one_model_is_symmetric_with_ones():
    generator = np.random.default_rng(2)
    levels = [generator.normal(size=(9, width)) for width in (3, 5, 4)]
    matrix = cka_matrix(levels, levels)
    np.testing.assert_allclose(np.diag(matrix), 1)
    np.testing.assert_allclose(matrix, matrix.T)


def test_the_divergence_of_heads_is_the_mean_over_queries():
    weights = np.random.default_rng(4).dirichlet(np.ones(6), (3, 4))  # (heads, queries, keys)
    weights[:, 0] = np.eye(6)[0]
    divergences = head_divergences(weights)
    for i in range(3):
        for j in range(3):
            expected = np.mean([reference.jensen_shannon(weights[i, t], weights[j, t]) for t in range(4)])
            assert divergences[i, j] == pytest.approx(expected, abs=1e-12)
    assert head_divergences(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))[0, 1] == pytest.approx(np.log(2))


def test_classical_scaling_recovers_points_from_distances():
    points = np.random.default_rng(5).normal(size=(7, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    coordinates = classical_scaling(distances)
    np.testing.assert_allclose(np.linalg.norm(coordinates[:, None] - coordinates[None], axis=-1), distances, atol=1e-9)
    assert classical_scaling(np.zeros((1, 1))).shape == (1, 2)
