"""One step of an LSTM, GRU or Elman cell on a GPU, without gradients, as one kernel: both products, the biases and the
gates.

    s  = W_x x + b_x + W_h h + b_h
    i, f, g, o = s:    c' = sigmoid(f) c + sigmoid(i) tanh(g),    h' = sigmoid(o) tanh(c')                lstm
    r, z, n, m = s:    h' = sigmoid(z) h + (1 - sigmoid(z)) tanh(n + sigmoid(r) m)                        gru
    h' = tanh(s) or max(s, 0)                                                                             tanh, relu

The candidate of a GRU has two sums, n of x and m of h, so both gated cells have four sums per unit. A program
computes all sums of a few units as one tile of weights, which is ordered by gate in memory and by unit in the tile. For
few rows it multiplies without tensor cores, over the whole depth at once, so all reads are in flight together; for
more rows it uses tensor cores in a loop over the depth. Sums are in float32, and products are not rounded to TF32.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from clew.kernels.ahead import launching
from clew.kernels.few_rows import PLAIN

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
except ImportError:  # CPU builds of torch come without it
    triton = None

MOST_ROWS = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 128}
"""The maximum number of rows for which the kernels are used."""
FEW = 2
"""The maximum number of rows for which a step does not use tensor cores."""
FEW_SUMS, FEW_BYTES, FEW_WARP, FEW_LONGEST = 4, 32768, 8192, 4096
"""For few rows: the sums per program; the maximum bytes of a weight tile, two of which are in registers; the bytes of a
tile per warp; and the maximum number of depth entries of a tile. With the warps side by side along the depth, a sum
takes one exchange between them."""
MANY_ROWS, MANY_UNITS, MANY_STAGES, MANY_WARPS = 64, 8, 4, 4
"""For many rows: rows and units per program, depth steps that are prefetched, and warps."""
MANY_STEP = {2: 128, 4: 32}
"""The depth entries of one step, by the bytes per entry."""
LEAST_DOT = 16
"""The smallest side of a tensor core product."""


def supports_cell_step(x: Tensor, *tensors: Tensor) -> bool:
    """Whether `cell_step` supports an input (rows, ..., dim), its state and weights."""
    if triton is None or torch.compiler.is_compiling() or not x.is_cuda or torch.is_autocast_enabled("cuda"):
        return False
    is_plain = all(type(each) in PLAIN and each.dtype == x.dtype and each.numel() for each in (x, *tensors))
    return is_plain and len(x) <= MOST_ROWS.get(x.dtype, 0) and x.get_device() == torch.cuda.current_device()


def cell_step(kind: str, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """Return the new state: h (rows, dim), and for an LSTM also c.

    `kind` is lstm, gru, tanh or relu; x is (rows, input dim). `weights` are as in torch's cells: of x, of h, and a bias
    for each.
    """
    x, hidden, before = (with_rows(each) for each in (x, state[0], state[-1]))
    input_weight, hidden_weight = map(with_rows, weights[:2])
    biases = [bias.contiguous() for bias in weights[2:]]
    rows, dim = before.shape
    new = [torch.empty(rows, dim, dtype=x.dtype, device=x.device) for _ in state]
    sums = 4 if kind in ("lstm", "gru") else 1
    tensors = x, hidden, before, input_weight, hidden_weight, *biases, new[0], new[-1]
    strides = x.stride(0), hidden.stride(0), before.stride(0), input_weight.stride(0), hidden_weight.stride(0)
    depth, size = max(x.shape[1], dim), x.element_size()
    depths = {"DEPTH": depth, "X_DEPTH": x.shape[1], "H_DEPTH": dim}
    if rows <= FEW:
        step = min(triton.next_power_of_2(depth), FEW_LONGEST)
        units = max(1, min(FEW_SUMS, FEW_BYTES // (size * step)) // sums)
        _few_rows[(triton.cdiv(dim, units),)](
            *tensors, *strides, dim, **depths, KIND=kind, COUNT=rows, ROWS=triton.next_power_of_2(rows),
            UNITS=units, SUMS=sums, STEP=step,
            num_warps=max(1, min(8, units * sums * step * size // FEW_WARP)), **launching(),
        )  # fmt: skip
        return new
    block = max(LEAST_DOT, min(MANY_ROWS, triton.next_power_of_2(rows)))
    units = max(MANY_UNITS, LEAST_DOT // sums)
    step = max(LEAST_DOT, min(triton.next_power_of_2(depth), MANY_STEP[size]))
    _many_rows[(triton.cdiv(dim, units), triton.cdiv(rows, block))](
        *tensors, *strides, dim, rows, **depths, KIND=kind, ROWS=block, UNITS=units, SUMS=sums, STEP=step,
        num_warps=MANY_WARPS, num_stages=stages_for(x, 2 * (block + units * sums) * step * size), **launching(),
    )  # fmt: skip
    return new


def with_rows(x: Tensor) -> Tensor:
    """Return the matrix with contiguous rows."""
    return x if x.stride(1) == 1 else x.contiguous()


def stages_for(x: Tensor, size: int) -> int:
    """Return how many depth steps of `size` bytes are prefetched: as many as fit into the shared memory of x's
    device."""
    # The interpreter runs on the CPU.
    return max(1, min(MANY_STAGES, shared_memory(x.get_device()) // size)) if x.is_cuda else 1


@cache
def shared_memory(device: int) -> int:
    return int(triton.runtime.driver.active.utils.get_device_properties(device)["max_shared_mem"])


if triton is not None:

    @triton.jit
    def _few_rows(
        x, hidden, before, input_weight, hidden_weight, input_bias, hidden_bias, new_hidden, new_cell,
        x_row, hidden_row, before_row, input_weight_row, hidden_weight_row, dim,
        DEPTH: tl.constexpr, X_DEPTH: tl.constexpr, H_DEPTH: tl.constexpr, KIND: tl.constexpr,
        COUNT: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, SUMS: tl.constexpr, STEP: tl.constexpr,
        AHEAD: tl.constexpr,
    ):  # fmt: skip
        row = tl.arange(0, ROWS)
        of_x, x_gates, of_h, h_gates = _rows_of_weights(dim, KIND, UNITS, SUMS)
        if DEPTH <= STEP:  # read the weights, which no kernel writes, before x is ready
            whole = tl.arange(0, STEP)
            w_x = _tile(input_weight, of_x, x_gates, input_weight_row, whole, X_DEPTH).to(tl.float32)
            w_h = _tile(hidden_weight, of_h, h_gates, hidden_weight_row, whole, H_DEPTH).to(tl.float32)
        wait_for_others(AHEAD)
        old = _old_state(before, before_row, row, COUNT, dim, UNITS)
        total = (
            tl.zeros([ROWS, UNITS * SUMS], dtype=tl.float32)
            + _biases(input_bias, hidden_bias, of_x, x_gates, of_h, h_gates)[None, :]
        )
        for start in range(0, DEPTH, STEP):
            k = start + tl.arange(0, STEP)
            if DEPTH > STEP:
                w_x = _tile(input_weight, of_x, x_gates, input_weight_row, k, X_DEPTH).to(tl.float32)
                w_h = _tile(hidden_weight, of_h, h_gates, hidden_weight_row, k, H_DEPTH).to(tl.float32)
            for place in tl.static_range(COUNT):
                x_k = tl.load(x + place * x_row + k, mask=k < X_DEPTH, other=0.0).to(tl.float32)
                h_k = tl.load(hidden + place * hidden_row + k, mask=k < H_DEPTH, other=0.0).to(tl.float32)
                some = tl.sum(w_x * x_k[None, :] + w_h * h_k[None, :], 1)
                total += tl.where((row == place)[:, None], some[None, :], 0.0)
        _finish(total, old, new_hidden, new_cell, row, COUNT, dim, KIND, ROWS, UNITS)

    @triton.jit
    def _many_rows(
        x, hidden, before, input_weight, hidden_weight, input_bias, hidden_bias, new_hidden, new_cell,
        x_row, hidden_row, before_row, input_weight_row, hidden_weight_row, dim, rows,
        DEPTH: tl.constexpr, X_DEPTH: tl.constexpr, H_DEPTH: tl.constexpr, KIND: tl.constexpr,
        ROWS: tl.constexpr, UNITS: tl.constexpr, SUMS: tl.constexpr, STEP: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
        is_row = row < rows
        old = _old_state(before, before_row, row, rows, dim, UNITS)
        of_x, x_gates, of_h, h_gates = _rows_of_weights(dim, KIND, UNITS, SUMS)
        total = (
            tl.zeros([ROWS, UNITS * SUMS], dtype=tl.float32)
            + _biases(input_bias, hidden_bias, of_x, x_gates, of_h, h_gates)[None, :]
        )
        for start in range(0, DEPTH, STEP):
            k = start + tl.arange(0, STEP)
            x_k = _tile(x, is_row, row, x_row, k, X_DEPTH)
            h_k = _tile(hidden, is_row, row, hidden_row, k, H_DEPTH)
            w_x = _tile(input_weight, of_x, x_gates, input_weight_row, k, X_DEPTH)
            w_h = _tile(hidden_weight, of_h, h_gates, hidden_weight_row, k, H_DEPTH)
            total = tl.dot(x_k, tl.trans(w_x), total, input_precision="ieee")
            total = tl.dot(h_k, tl.trans(w_h), total, input_precision="ieee")
        _finish(total, old, new_hidden, new_cell, row, rows, dim, KIND, ROWS, UNITS)

    @triton.jit
    def _rows_of_weights(dim, KIND: tl.constexpr, UNITS: tl.constexpr, SUMS: tl.constexpr):
        """Return for each sum of a program whether it has a product with x, and the row of its weight; then the same
        for h."""
        n = tl.arange(0, UNITS * SUMS)
        unit = tl.program_id(0) * UNITS + n // SUMS
        gate = n % SUMS
        of_x = unit < dim
        of_h = of_x
        h_gate = gate
        if KIND == "gru":
            of_x = of_x & (gate < 3)
            of_h = of_h & (gate != 2)
            h_gate = tl.minimum(gate, 2)
        return of_x, gate * dim + unit, of_h, h_gate * dim + unit

    @triton.jit
    def _tile(matrix, is_row, row, stride, k, width):
        """Load rows of a matrix at columns k."""
        return tl.load(
            matrix + row.to(tl.int64)[:, None] * stride + k[None, :],
            mask=is_row[:, None] & (k < width)[None, :],
            other=0.0,
        )

    @triton.jit
    def _biases(input_bias, hidden_bias, of_x, x_gates, of_h, h_gates):
        first = tl.load(input_bias + x_gates, mask=of_x, other=0.0).to(tl.float32)
        return first + tl.load(hidden_bias + h_gates, mask=of_h, other=0.0).to(tl.float32)

    @triton.jit
    def _old_state(before, before_row, row, rows, dim, UNITS: tl.constexpr):
        """Read c of an LSTM, or h of other cells (rows, units), before the products, so that nothing waits for it
        afterwards."""
        unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
        return _tile(before, row < rows, row, before_row, unit, dim)

    @triton.jit
    def _finish(
        total, old, new_hidden, new_cell, row, rows, dim, KIND: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr
    ):
        unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
        place = row[:, None] * dim + unit[None, :]
        is_real = (row < rows)[:, None] & (unit < dim)[None, :]
        if KIND == "lstm" or KIND == "gru":
            even, odd = tl.split(tl.reshape(total, [ROWS, UNITS, 2, 2]))
            first, third = tl.split(even)
            second, fourth = tl.split(odd)
            old = old.to(tl.float32)
            if KIND == "lstm":
                cell = tl.sigmoid(second) * old + tl.sigmoid(first) * _tanh(third)
                tl.store(new_cell + place, cell.to(new_cell.dtype.element_ty), mask=is_real)
                new = tl.sigmoid(fourth) * _tanh(cell)
            else:
                update = tl.sigmoid(second)
                new = update * old + (1.0 - update) * _tanh(third + tl.sigmoid(first) * fourth)
        elif KIND == "tanh":
            new = _tanh(total)
        else:
            new = tl.where(total < 0.0, 0.0, total)  # NaN stays
        tl.store(new_hidden + place, new.to(new_hidden.dtype.element_ty), mask=is_real)

    @triton.jit
    def _tanh(z):
        """Use the series near 0, where the difference of exponentials loses digits."""
        square = z * z
        series = z * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0 - square * (17.0 / 315.0))))
        e = tl.exp(-2.0 * tl.abs(z))
        ratio = (1.0 - e) / (1.0 + e)
        return tl.where(square < 0.04, series, tl.where(z < 0.0, -ratio, ratio))
