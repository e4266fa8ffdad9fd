import pytest
import torch

from clew.kernels.cells import products
from clew.kernels.cells.products import LEAST_ROWS, LEAST_TIMES, has_form, matmul_transposed, multiplied, products_of


@pytest.fixture(autouse=True)
def other_cpu(monkeypatch):
    """A CPU on which torch's own product of few rows is slow."""
    monkeypatch.setattr(products, "has_slow_products", lambda: True)


@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize("times", [1, LEAST_TIMES])
@pytest.mark.parametrize("is_added", [True, False])
def test_repeated_products_are_written_or_added(is_slow, times, is_added, monkeypatch):
    monkeypatch.setattr(products, "has_slow_products", lambda: is_slow)
    weight, result = torch.randn(130, 128), torch.ones(2, 16, 130)
    multiply = multiplied(weight, 16, times, is_added)
    for _ in range(2):
        x = torch.randn(16, 128)
        result.fill_(1.0)
        multiply(x, result[1])
        torch.testing.assert_close(result[1], x @ weight.mT + is_added, rtol=1e-4, atol=1e-4)
        assert torch.all(result[0] == 1.0)


@pytest.mark.parametrize(("rows", "width", "out"), [(16, 128, 130), (33, 150, 450)])
def test_onednn_layout_has_the_same_products(rows, width, out):
    weight = torch.randn(out, width)
    for each in (weight, torch.randn(width, out).mT):
        multiply = products_of(each, rows, LEAST_TIMES)
        if multiply is None:
            assert not has_form()
            pytest.skip("this build of torch has no such form")
        for _ in range(2):
            x = torch.randn(2, rows, width)[1]
            torch.testing.assert_close(multiply(x), x @ each.mT, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("depth", [7, 200])
def test_products_of_long_matrices_equal_those_of_torch(depth):
    left, right = torch.randn(depth, 90).mT, torch.randn(depth, 100).mT
    torch.testing.assert_close(matmul_transposed(left, right), left @ right.mT, rtol=1e-4, atol=1e-4)
    left, right = left.double(), right.double()
    assert torch.equal(matmul_transposed(left, right), left @ right.mT)


def test_onednn_layout_needs_rows_repetitions_and_float32():
    weight = torch.randn(200, 200)
    assert products_of(weight, LEAST_ROWS - 1, LEAST_TIMES) is None
    assert products_of(weight, LEAST_ROWS, LEAST_TIMES - 1) is None
    assert products_of(weight.double(), LEAST_ROWS, LEAST_TIMES) is None
