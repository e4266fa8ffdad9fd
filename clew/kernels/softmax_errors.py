"""The error of a softmax, written over its logits, on a GPU: one kernel per chunk of rows.

    plain   = log sum exp z - z_target
    uniform = log sum exp z - mean z
    z      <- softmax(z) - q,    q = (1 - eps) onehot(target) + eps / width

Arithmetic is in float32 for every dtype of logits, and the logits are not copied: a row is read once for its maximum
and sum together, and again, mostly from the GPU's cache, when it is overwritten.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # CPU builds of torch come without it
    triton = None

STEP, WARPS = 4096, 8
"""The number of logits that a program reads together, and its number of warps."""
FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def is_supported(x: Tensor) -> bool:
    """Whether the kernel supports the device and dtype of x."""
    return x.is_cuda and triton is not None and x.dtype in FLOATS


def softmax_errors_(
    logits: Tensor,
    width: int,
    targets: Tensor,
    plain: Tensor,
    uniform: Tensor,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    errors: bool = True,
) -> None:
    """Overwrite logits (rows, columns), whose first `width` columns are real, by errors, unless `errors` is False.

    Errors are 0 in the other columns and in rows whose target is `ignore_index`. `plain` and, with smoothing, `uniform`
    (rows,) are written, 0 in ignored rows. A target outside the columns gives NaN, since to raise an error the host
    would have to wait for the GPU.
    """
    rows, columns = logits.shape
    if not rows:
        return
    assert logits.stride(1) == targets.stride(0) == plain.stride(0) == uniform.stride(0) == 1
    _softmax_errors[(rows,)](
        logits, targets, plain, uniform, logits.stride(0), width, columns, label_smoothing, ignore_index or 0,
        STEP=min(STEP, triton.next_power_of_2(columns)), IGNORES=ignore_index is not None,
        SMOOTHS=bool(label_smoothing), WRITES=errors, num_warps=WARPS,
    )  # fmt: skip


if triton is not None:

    @triton.jit
    def _softmax_errors(
        logits, targets, plain, uniform, stride, width, columns, smoothing, ignore_index,
        STEP: tl.constexpr, IGNORES: tl.constexpr, SMOOTHS: tl.constexpr, WRITES: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)
        z_row = logits + row * stride
        k = tl.arange(0, STEP)
        target = tl.load(targets + row)
        counts = target == target
        if IGNORES:
            counts = target != ignore_index
        # Read before the reductions below: after them all warps of the program may write.
        z_target = tl.load(z_row + target, mask=(target >= 0) & (target < width), other=float("nan")).to(tl.float32)
        # Lower than any logit, but finite: the difference of two infinities would be NaN.
        most = tl.full([STEP], -1e38, dtype=tl.float32)
        total = tl.zeros([STEP], dtype=tl.float32)
        added = tl.zeros([STEP], dtype=tl.float32)
        for start in range(0, width, STEP):
            is_real = start + k < width
            z = tl.load(z_row + start + k, mask=is_real, other=float("-inf")).to(tl.float32)
            # exp(z - new maximum) and exp(old maximum - new maximum): one of the two is 1.
            smaller = tl.exp(-tl.abs(z - most))
            total = tl.where(z > most, total * smaller + 1.0, total + smaller)
            most = tl.maximum(most, z)
            if SMOOTHS:
                added += tl.where(is_real, z, 0.0)
        top = tl.max(most, 0)
        log_total = top + tl.log(tl.sum(total * tl.exp(most - top), 0))
        tl.store(plain + row, tl.where(counts, log_total - z_target, 0.0))
        if SMOOTHS:
            tl.store(uniform + row, tl.where(counts, log_total - tl.sum(added, 0) / width, 0.0))
        if WRITES:
            for start in range(0, columns, STEP):
                at = start + k
                z = tl.load(z_row + at, mask=at < width, other=float("-inf")).to(tl.float32)
                error = tl.exp(z - log_total)
                if SMOOTHS:
                    error -= smoothing / width
                error = tl.where(at == target, error - (1.0 - smoothing), error)
                error = tl.where((at < width) & counts, error, 0.0)
                tl.store(z_row + at, error.to(logits.dtype.element_ty), mask=at < columns)
