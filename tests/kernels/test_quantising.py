import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.kernels import few_rows_quantised, quantised_products
from clew.kernels.few_rows_quantised import few_rows_product
from clew.kernels.projections import Together
from clew.kernels.quantised_products import has_integer_products, integer_product, quantised_product
from clew.kernels.quantised_weight import QuantisedWeight
from clew.kernels.quantising import Integers, integers_of, packed, unpacked
from tests.references.quantising import int4_groups, int8_rows, rounded_rows

BITS = pytest.mark.parametrize("bits", [8, 4])
INTEGERS = pytest.mark.skipif(not has_integer_products(), reason="this CPU has no exact product of int8")


def matrix(rows: int = 24, columns: int = 64, seed: int = 1) -> Tensor:
    """A matrix with rows of different scale, one of them zero."""
    generator = torch.Generator().manual_seed(seed)
    weight = (
        torch.randn(rows, columns, generator=generator, dtype=torch.double)
        * torch.rand(rows, 1, generator=generator)
        * 3
    )
    weight[2] = 0
    return weight


def quantised(weight: Tensor, bits: int) -> nn.Parameter:
    return nn.Parameter(QuantisedWeight(integers_of(weight, bits)), requires_grad=False)


@pytest.fixture
def no_integer_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as on a CPU for which oneDNN has no integer products."""
    monkeypatch.setattr(quantised_products, "multiplies_integers", lambda device: False)


def test_int8_codes_equal_the_equation():
    codes, scales = int8_rows(matrix().numpy())
    integers = integers_of(matrix(), 8)
    np.testing.assert_array_equal(integers.codes.numpy(), codes)
    np.testing.assert_allclose(integers.scales.numpy(), scales, rtol=1e-14)
    assert integers.multipliers is None


def test_int4_codes_equal_the_equation():
    codes, multipliers, scales = int4_groups(matrix().numpy())
    integers = integers_of(matrix(), 4)
    np.testing.assert_array_equal(integers.multipliers.numpy(), multipliers)
    np.testing.assert_allclose(integers.scales.numpy(), scales, rtol=1e-14)
    np.testing.assert_array_equal(integers.int8().numpy(), codes * np.repeat(multipliers, 32, 1))
    np.testing.assert_allclose(
        integers.floats(torch.double).numpy(), codes * np.repeat(multipliers, 32, 1) * scales[:, None], atol=1e-15
    )


def test_two_codes_are_packed_into_a_byte_and_unpacked():
    every = torch.arange(-8, 8, dtype=torch.int8)
    codes = torch.cartesian_prod(every, every).reshape(8, 64)
    assert packed(codes).shape == (8, 32)
    assert torch.equal(unpacked(packed(codes), torch.ones(8, 2, dtype=torch.int8)), codes)
    assert int(unpacked(packed(codes), torch.full((8, 2), -15, dtype=torch.int8)).max()) == 120


def test_an_entry_changes_by_at_most_half_a_step():
    weight = matrix()
    integers = integers_of(weight, 8)
    assert ((integers.floats(torch.double) - weight).abs() <= integers.scales[:, None] / 2 * (1 + 1e-12)).all()


def test_searched_multipliers_beat_plain_rounding_to_four_bits():
    weight = torch.randn(50, 128, generator=torch.Generator().manual_seed(3))
    groups = weight.unflatten(1, (-1, 32))
    step = groups.abs().amax(-1, keepdim=True) / 7
    plain = ((groups / step).round() * step).flatten(1)
    assert (integers_of(weight, 4).floats(torch.float32) - weight).norm() < 0.9 * (plain - weight).norm()


@BITS
def test_a_weight_has_the_size_of_its_bits(bits):
    weight = torch.randn(64, 256)
    size = sum(part.nbytes for part in integers_of(weight, bits).parts)
    scales, multipliers = 4 * 64, 0 if bits == 8 else 64 * 256 // 32
    assert size == 64 * 256 * bits // 8 + scales + multipliers


@INTEGERS
@BITS
@pytest.mark.parametrize("shape", [(1, 64), (5, 64), (2, 3, 64), (64,)])
def test_an_integer_product_equals_that_of_x_rounded_row_by_row(bits, shape):
    x, weight, bias = torch.randn(shape), integers_of(matrix().float(), bits), torch.randn(24)
    rows = rounded_rows(x.reshape(-1, 64).double().numpy())
    expected = rows @ weight.floats(torch.double).numpy().T + bias.double().numpy()
    actual = integer_product(x, weight, bias)
    assert actual.shape == (*shape[:-1], 24) and actual.dtype == x.dtype
    np.testing.assert_allclose(actual.reshape(-1, 24).numpy(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        integer_product(x, weight, None).reshape(-1, 24).numpy(), expected - bias.double().numpy(), atol=1e-5
    )


@INTEGERS
@BITS
def test_rounding_x_costs_at_most_half_a_step_of_each_entry(bits):
    x, weight = torch.randn(6, 64), integers_of(matrix().float(), bits)
    whole = weight.floats(torch.double)
    steps = x.double().abs().amax(1, keepdim=True) / 127
    bound = steps / 2 * whole.abs().sum(1)  # (rows, outputs)
    assert ((integer_product(x, weight, None) - x.double() @ whole.T).abs() <= bound + 1e-5).all()


@INTEGERS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [64, 48, 16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 17), (8, 1), (5, 3)])
def test_a_product_of_few_texts_equals_that_of_x_in_bfloat16(dtype, columns, shape):
    weight, bias = integers_of(matrix(columns=columns).to(dtype), 8), torch.randn(24).to(dtype)
    x = torch.randn(*shape, columns).to(dtype)
    expected = x.bfloat16().double() @ weight.codes.double().T * weight.scales.double()
    size = (
        x.double().abs() @ weight.floats(torch.double).abs().T
    ) / 2**8 + 1e-5  # the error of rounding a sum to bfloat16
    for offset in (bias, None):
        actual = quantised_product(x, weight, offset)
        whole = expected if offset is None else expected + offset.double()
        assert actual.shape == (*shape, 24) and actual.dtype == dtype
        assert ((actual.double() - whole).abs() <= size + whole.abs() / 2**7 * (dtype == torch.bfloat16)).all()


@INTEGERS
@pytest.mark.parametrize("columns", [17, 37, 40, 63])
def test_a_width_not_divisible_by_a_vector_uses_the_integer_product(columns):
    weight, x = integers_of(matrix(columns=columns).float(), 8), torch.randn(3, 1, columns)
    torch.testing.assert_close(quantised_product(x, weight), integer_product(x, weight, None), rtol=0, atol=0)


@INTEGERS
def test_a_chunk_of_few_texts_is_rounded_like_its_steps():
    weight, x = integers_of(matrix().float(), 8), torch.randn(8, 17, 64)
    steps = [quantised_product(x[:, place, None], weight) for place in range(17)]
    torch.testing.assert_close(quantised_product(x, weight), torch.cat(steps, 1), rtol=0, atol=0)


@INTEGERS
def test_few_texts_are_more_accurate_than_many():
    weight, x = integers_of(matrix().float(), 8), torch.randn(64, 1, 64)
    whole = x.double() @ weight.floats(torch.double).T
    few, many = (
        torch.cat([quantised_product(x[row : row + 8], weight) for row in range(0, 64, 8)]),
        quantised_product(x, weight),
    )
    assert (few - whole).norm() < (many - whole).norm() / 2


@INTEGERS
def test_rows_of_zeros_and_of_nan_stay_unchanged():
    x, weight = torch.zeros(3, 64), integers_of(matrix().float(), 8)
    x[1, 5], x[2, 5] = float("nan"), float("inf")
    actual = integer_product(x, weight, torch.ones(24))
    assert (actual[0] == 1).all()
    assert not actual[1, [0, 1]].isfinite().any() and not actual[2, [0, 1]].isfinite().any()


@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "AVX512_CORE", "ALL"])
def test_integer_products_are_used_only_where_their_sums_are_exact(isa):
    """oneDNN reads its limit when it is loaded, so each limit needs its own process."""
    code = """
import torch
from clew.kernels.quantised_products import quantised_product
from clew.kernels.quantising import integers_of
x, weight = torch.ones(3, 256), integers_of(torch.ones(40, 256), 8)
torch.testing.assert_close(quantised_product(x, weight), torch.full((3, 40), 256.0))
"""
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa}, check=True)


@BITS
def test_without_integer_products_the_weight_is_converted_to_float(bits, no_integer_products):
    x, weight, bias = torch.randn(4, 64), integers_of(matrix().float(), bits), torch.randn(24)
    torch.testing.assert_close(
        quantised_product(x, weight, bias), F.linear(x, weight.floats(torch.float32), bias), rtol=0, atol=0
    )


@BITS
def test_in_float64_only_the_weight_is_rounded(bits):
    x, weight = torch.randn(4, 64, dtype=torch.double), integers_of(matrix(), bits)
    torch.testing.assert_close(quantised_product(x, weight), x @ weight.floats(torch.double).T, rtol=0, atol=1e-14)


@BITS
def test_gradients_equal_those_of_the_weight_as_float(bits):
    x, bias = torch.randn(2, 3, 64, requires_grad=True), torch.randn(24, requires_grad=True)
    weight, upper = integers_of(matrix().float(), bits), torch.randn(2, 3, 24)
    gradients = torch.autograd.grad(quantised_product(x, weight, bias), (x, bias), upper)
    expected = torch.autograd.grad(F.linear(x, weight.floats(torch.float32), bias), (x, bias), upper)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        unwatched = quantised_product(x, weight, bias)
    assert torch.equal(quantised_product(x, weight, bias), unwatched)


@BITS
def test_rows_of_a_table_are_looked_up(bits):
    table = quantised(matrix().float(), bits)
    tokens = torch.tensor([[1, 2, 23], [0, 1, 1]])
    assert torch.equal(F.embedding(tokens, table), table.integers.floats(torch.float32)[tokens])


@BITS
def test_other_functions_receive_floats(bits):
    weight = quantised(matrix().float(), bits)
    whole = weight.integers.floats(torch.float32)
    x, index = torch.randn(3, 64), torch.tensor([3, 1])
    for actual, expected in [
        (x @ weight.mT, x @ whole.mT),
        (torch.einsum("bk,nk->bn", x, weight), torch.einsum("bk,nk->bn", x, whole)),
        (weight[index], whole[index]),
        (weight + 1, whole + 1),
        (torch.cat([weight, weight]), torch.cat([whole, whole])),
        (weight.norm(), whole.norm()),
    ]:
        assert type(actual) is Tensor
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    state = torch.zeros(1, 3, 6)
    biases = torch.zeros(24), torch.zeros(24)
    small = quantised(torch.randn(24, 6), 8)
    arguments = (x[:, None], (state, state), (weight, small, *biases), True, 1, 0.0, False, False, True)
    plain = (
        x[:, None],
        (state, state),
        (whole, small.integers.floats(torch.float32), *biases),
        True,
        1,
        0.0,
        False,
        False,
        True,
    )
    torch.testing.assert_close(torch.lstm(*arguments)[0], torch.lstm(*plain)[0])


@BITS
def test_a_slice_of_rows_stays_quantised(bits):
    weight = quantised(matrix().float(), bits)
    part = weight[3:10]
    assert isinstance(part, QuantisedWeight) and part.shape == (7, 64)
    assert part.data_ptr() == weight.integers.codes[3:].data_ptr(), "it is a view"
    assert torch.equal(part.integers.floats(torch.float32), weight.integers.floats(torch.float32)[3:10])


def test_a_quantised_weight_has_the_attributes_of_its_weight():
    weight = quantised(matrix().float(), 4)
    assert (
        isinstance(weight, nn.Parameter)
        and weight.shape == (24, 64)
        and weight.dtype == torch.float32
        and len(weight) == 24
    )
    assert weight.new_zeros(2).dtype == torch.float32 and torch.zeros(2).double().to(weight).dtype == torch.float32
    assert repr(weight) == "QuantisedWeight([24, 64], int4)"
    assert weight.to(torch.float32) is weight and weight.to("cpu") is weight
    assert weight.to("meta").integers.codes.device.type == "meta"
    assert torch.equal(weight.to(torch.double), weight.integers.floats(torch.double))


@BITS
def test_a_module_with_a_quantised_weight_can_be_copied_and_moved(bits):
    layer = nn.Linear(64, 24)
    layer.weight = quantised(matrix().float(), bits)
    x = torch.randn(3, 64)
    twin = copy.deepcopy(layer)
    assert isinstance(twin.weight, QuantisedWeight) and twin.weight.data_ptr() != layer.weight.data_ptr()
    assert torch.equal(twin(x), layer(x))
    assert isinstance(layer.state_dict()["weight"], QuantisedWeight)
    moved = twin.to("meta")
    assert isinstance(moved.weight, QuantisedWeight) and moved.weight.device.type == "meta"


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.copy_(torch.zeros(24, 64)),
        lambda weight: weight.add_(1),
        lambda weight: weight.requires_grad_(),
        lambda weight: setattr(weight, "requires_grad", True),
        lambda weight: setattr(weight, "data", torch.zeros(24, 64)),
        lambda weight: nn.init.zeros_(weight),
    ],
)
def test_changes_of_a_quantised_weight_are_rejected(change):
    with pytest.raises(
        UserError, match="^weights in int8 or int4 cannot be changed or trained; load the run without a precision$"
    ):
        change(quantised(matrix().float(), 8))


@BITS
def test_three_projections_are_one_product(bits):
    linears = [nn.Linear(64, width) for width in (32, 16, 16)]
    for linear in linears:
        linear.weight = quantised(linear.weight, bits)
    x = torch.randn(2, 5, 64)
    with torch.no_grad():
        apart = torch.cat([linear(x) for linear in linears], -1)
        together = Together(linears)
        actual = together(x, *linears)
        assert actual is not None
        torch.testing.assert_close(actual, apart, rtol=0, atol=0)
        torch.testing.assert_close(torch.cat([linear(x) for linear in linears], -1), apart, rtol=0, atol=0)
        linears[1].weight = quantised(torch.randn(16, 64), bits)
        assert together(x, *linears) is None


def test_projections_of_different_dtypes_run_separately():
    linears = [nn.Linear(64, 16) for _ in range(3)]
    linears[0].weight = quantised(linears[0].weight, 8)
    linears[1].weight = quantised(linears[1].weight, 4)
    with torch.no_grad():
        assert Together(linears)(torch.randn(1, 64), *linears) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on a GPU")
@BITS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 64, 40), (3, 96, 33), (8, 1088, 2000), (2, 2112, 9000)])
def test_few_rows_on_a_gpu_equal_the_weight_as_float(bits, dtype, rows, columns, width):
    weight: Integers = integers_of(torch.randn(width, columns, device="cuda"), bits)
    x, bias = torch.randn(rows, columns, device="cuda", dtype=dtype), torch.randn(width, device="cuda", dtype=dtype)
    assert few_rows_quantised.is_for_few_rows(x, weight)
    expected = F.linear(x.double(), weight.floats(torch.double), bias.double())
    actual = few_rows_product(x, weight, bias).double()
    assert float((actual - expected).norm() / expected.norm()) < (1e-6 if dtype == torch.float32 else 4e-3)
