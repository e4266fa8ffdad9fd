"""Kernels that only a GPU runs, against the equations in float64."""

import pytest
import torch
import torch.nn.functional as F

from clew.kernels import few_rows
from clew.kernels.decode_attention import decode_attention
from clew.kernels.few_rows import FewRows
from clew.kernels.rotary import rotary

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="these kernels run on a GPU")
ALLOWED = {torch.float32: 1e-6, torch.bfloat16: 4e-3}
TYPES = pytest.mark.parametrize("dtype", ALLOWED)


def draw(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual.double() - expected).norm() / expected.norm())


@TYPES
@pytest.mark.parametrize(
    "batch, heads, key_heads, dim, slots, alibi",
    [
        (3, 4, 4, 64, 130, False),
        (2, 12, 12, 64, 700, False),
        (5, 8, 2, 128, 1025, False),
        (64, 6, 6, 16, 40, True),
        (1, 2, 1, 256, 3, True),
    ],
)
def test_one_position_sees_the_tokens_read_by_its_row(dtype, batch, heads, key_heads, dim, slots, alibi):
    query, key, value = (draw(batch, number, 1, dim, dtype=dtype) for number in (heads, key_heads, key_heads))
    keys, values = draw(batch, slots, key_heads, dim, dtype=dtype), draw(batch, slots, key_heads, dim, dtype=dtype)
    count = torch.randint(0, slots - 1, (batch,), device="cuda")
    first = count // 3
    slopes = torch.rand(heads, device="cuda") if alibi else None
    all_keys, all_values = keys.double(), values.double()
    with torch.no_grad():
        actual = decode_attention(query, key, value, keys, values, count, first, scale=dim**-0.5, slopes=slopes)
    for row in range(batch):
        n, start = int(count[row]), int(first[row])
        all_keys[row, n + 1], all_values[row, n + 1] = key[row, :, 0].double(), value[row, :, 0].double()
        k, v = (
            part[row, start + 1 : n + 2].repeat_interleave(heads // key_heads, 1) for part in (all_keys, all_values)
        )
        scores = torch.einsum("hd,jhd->hj", query[row, :, 0].double(), k) * dim**-0.5
        if slopes is not None:
            scores -= slopes.double()[:, None] * (n - torch.arange(start, n + 1, device="cuda"))
        assert error(actual[row, :, 0], torch.einsum("hj,jhd->hd", scores.softmax(-1), v)) < ALLOWED[dtype]
    assert torch.equal(keys.double(), all_keys), "the new key is written, and nothing else"
    assert torch.equal(values.double(), all_values)


def test_a_full_buffer_gives_nan():
    part = draw(1, 2, 1, 16, dtype=torch.float32)
    buffer = draw(1, 5, 2, 16, dtype=torch.float32)
    original = buffer.clone()
    full, start = torch.tensor([4], device="cuda"), torch.tensor([0], device="cuda")
    with torch.no_grad():
        actual = decode_attention(part, part, part, buffer, buffer, full, start, scale=1.0)
    assert actual.isnan().all()
    assert torch.equal(buffer, original)


@TYPES
@pytest.mark.parametrize(
    "rows, width, depth, bias",
    [(1, 100, 70, True), (3, 2304, 768, True), (8, 5000, 3072, False), (40, 50257, 96, True)],
)
def test_products_and_softmaxes_of_few_rows_equal_float64(dtype, rows, width, depth, bias):
    x, weight = draw(rows, 1, depth, dtype=dtype), draw(width, depth, dtype=dtype)
    offset = draw(width, dtype=dtype) if bias else None
    with torch.inference_mode(), FewRows():
        logits = F.linear(x, weight, offset)
        log_probs = logits.log_softmax(-1, dtype=torch.float32)
        best = log_probs[:, 0].argmax(-1)
    expected = F.linear(x.double(), weight.double(), None if offset is None else offset.double())
    assert error(logits, expected) < ALLOWED[dtype]
    torch.testing.assert_close(log_probs.double(), logits.double().log_softmax(-1), atol=1e-4, rtol=1e-5)
    assert torch.equal(best, log_probs[:, 0].argmax(-1))


@TYPES
def test_norms_of_few_rows_equal_float64(dtype):
    x, weight, bias = draw(5, 3, 100, dtype=dtype), draw(100, dtype=dtype), draw(100, dtype=dtype)
    with torch.inference_mode(), FewRows():
        layer, rms = torch.layer_norm(x, (100,), weight, bias, 1e-5), F.rms_norm(x, (100,), weight, 1e-5)
    assert error(layer, F.layer_norm(x.double(), (100,), weight.double(), bias.double(), 1e-5)) < ALLOWED[dtype]
    assert error(rms, F.rms_norm(x.double(), (100,), weight.double(), 1e-5)) < ALLOWED[dtype]


def test_the_first_of_equal_entries_counts_as_the_largest():
    x = torch.tensor([[0.0, 3.0, 3.0, 1.0], [-float("inf")] * 4, [1.0, 1.0, 1.0, 1.0]], device="cuda")
    with torch.inference_mode(), FewRows():
        assert x.argmax(-1).tolist() == [1, 0, 0]


def test_changed_weights_are_aligned_again():
    x, weight = draw(40, 32, dtype=torch.bfloat16), draw(few_rows.WIDE + 3, 32, dtype=torch.bfloat16)
    mode = FewRows()
    with torch.no_grad():
        with mode:
            F.linear(x, weight)
        weight.mul_(2)
        mode.refresh()
        with mode:
            actual = F.linear(x, weight)
    assert error(actual, x.double() @ weight.double().mT) < ALLOWED[torch.bfloat16]


@TYPES
def test_rotary_positions_rotate_pairs(dtype):
    x = draw(3, 5, 1, 64, dtype=dtype)
    positions = torch.tensor([[0], [7], [500]], device="cuda")
    frequencies = 10000.0 ** (-torch.arange(0, 64, 2, device="cuda") / 64)
    with torch.inference_mode():
        actual = rotary(x, positions, frequencies)
    angles = positions.double()[:, None, :, None] * frequencies.double()
    left, right = x.double().chunk(2, -1)
    expected = torch.cat([left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], -1)
    assert error(actual, expected) < max(ALLOWED[dtype], 1e-5)
