import pytest
import torch

from clew.kernels.cells.products import LEAST_ROWS, LEAST_TIMES, has_form, matmul_transposed, products_of


@pytest.mark.parametrize(("rows", "width", "out"), [(16, 128, 130), (33, 150, 450)])
def test_a_weight_in_a_form_of_its_own_gives_the_same_products(rows, width, out):
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
def test_a_product_of_two_long_ones_is_that_of_torch(depth):
    left, right = torch.randn(depth, 90).mT, torch.randn(depth, 100).mT
    torch.testing.assert_close(matmul_transposed(left, right), left @ right.mT, rtol=1e-4, atol=1e-4)
    left, right = left.double(), right.double()
    assert torch.equal(matmul_transposed(left, right), left @ right.mT)


def test_few_rows_few_times_and_other_types_have_no_form():
    weight = torch.randn(200, 200)
    assert products_of(weight, LEAST_ROWS - 1, LEAST_TIMES) is None
    assert products_of(weight, LEAST_ROWS, LEAST_TIMES - 1) is None
    assert products_of(weight.double(), LEAST_ROWS, LEAST_TIMES) is None
