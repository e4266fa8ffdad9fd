"""Copies at the end of a decoding step, on a GPU: several small tensors of any dtype in one kernel.

torch copies lists of tensors by dtype, in blocks of 64 thousand numbers; the states of a step fill only one or two
blocks.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Sequence

import torch
from torch import Tensor

from clew.kernels.ahead import launching

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
except ImportError:  # CPU builds of torch come without it
    triton = None

TOGETHER = 8
"""The maximum number of tensors that one kernel copies."""
BLOCK = 1024
MOST_COLUMNS, MOST_ROWS = 4, 1024
"""The maximum number of columns that one kernel writes, and of rows: it runs as a single program."""


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy each source into its target; no target may overlap a source."""
    pairs = list(zip(targets, sources, strict=True))
    together = [(target, source) for target, source in pairs if is_supported(target, source)]
    for target, source in pairs:
        if not is_supported(target, source):
            target.copy_(source)
    for first in range(0, len(together), TOGETHER):
        some = [words_of(target, source) for target, source in together[first : first + TOGETHER]]
        places = [part for target, source in some for part in (target, source)]
        numbers = [target.numel() for target, _ in some]
        spare = TOGETHER - len(some)
        _copied[(triton.cdiv(max(numbers), BLOCK), len(some))](
            *places, *places[:2] * spare, *numbers, *[0] * spare, BLOCK=BLOCK, **launching()
        )


def write_columns(tables: Sequence[Tensor], outputs: Sequence[Tensor], column: Tensor) -> bool:
    """Write outputs (rows,) into `column` (1,) of the tables (rows, columns) and add 1 to the column. Return False and
    do nothing if unsupported."""
    rows = len(outputs[0])
    fits = len(outputs) <= MOST_COLUMNS and 0 < rows <= MOST_ROWS and all(output.shape == (rows,) for output in outputs)
    if triton is None or not fits or not is_on_gpu(column):
        return False
    places = [bytes_of(part) for pair in zip(tables, outputs, strict=True) for part in pair]
    spare = MOST_COLUMNS - len(outputs)
    strides = [output.stride(0) for output in outputs]
    _written[(1,)](
        *places, *places[:2] * spare, *strides, *strides[:1] * spare, column, rows, tables[0].shape[1],
        COUNT=len(outputs), ROWS=triton.next_power_of_2(rows), **launching(),
    )  # fmt: skip
    return True


def is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


def is_supported(target: Tensor, source: Tensor) -> bool:
    same = target.shape == source.shape and target.dtype == source.dtype
    return (
        triton is not None
        and is_on_gpu(target)
        and same
        and target.numel() > 0
        and target.is_contiguous()
        and source.is_contiguous()
    )


def words_of(target: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Flatten both tensors, viewed as integers of 8 bytes if both are aligned."""
    pair = bytes_of(target).view(-1), bytes_of(source).view(-1)
    if all(flat.nbytes % 8 == 0 and flat.data_ptr() % 8 == 0 for flat in pair):
        return pair[0].view(torch.int64), pair[1].view(torch.int64)
    return pair


def bytes_of(x: Tensor) -> Tensor:
    return x.view(torch.uint8) if x.dtype == torch.bool else x


if triton is not None:

    @triton.jit
    def _copy(target, source, count, at):
        tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)

    @triton.jit
    def _copied(
        t0, s0, t1, s1, t2, s2, t3, s3, t4, s4, t5, s5, t6, s6, t7, s7, n0, n1, n2, n3, n4, n5, n6, n7,
        BLOCK: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        pair = tl.program_id(1)
        if pair == 0:
            _copy(t0, s0, n0, at)
        if pair == 1:
            _copy(t1, s1, n1, at)
        if pair == 2:
            _copy(t2, s2, n2, at)
        if pair == 3:
            _copy(t3, s3, n3, at)
        if pair == 4:
            _copy(t4, s4, n4, at)
        if pair == 5:
            _copy(t5, s5, n5, at)
        if pair == 6:
            _copy(t6, s6, n6, at)
        if pair == 7:
            _copy(t7, s7, n7, at)

    @triton.jit
    def _write(kept, output, stride, rows, columns, at, row):
        tl.store(kept + row * columns + at, tl.load(output + row * stride, mask=row < rows), mask=row < rows)

    @triton.jit
    def _written(
        k0, o0, k1, o1, k2, o2, k3, o3, s0, s1, s2, s3, column, rows, columns,
        COUNT: tl.constexpr, ROWS: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.arange(0, ROWS)
        at = tl.load(column)
        _write(k0, o0, s0, rows, columns, at, row)
        if COUNT > 1:
            _write(k1, o1, s1, rows, columns, at, row)
        if COUNT > 2:
            _write(k2, o2, s2, rows, columns, at, row)
        if COUNT > 3:
            _write(k3, o3, s3, rows, columns, at, row)
        tl.debug_barrier()  # until every thread has read the column
        tl.store(column, at + 1)
