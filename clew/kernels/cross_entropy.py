"""The cross-entropy of a softmax over a vocabulary, without holding all logits.

Rows are processed in chunks. Gradients, if needed, are computed in the forward pass from the probabilities of a chunk:

    z    = W h + b
    loss = - sum_k q_k log softmax(z)_k,    q = (1 - eps) onehot(target) + eps / vocabulary
    dz   = softmax(z) - q,    dh = W^T dz,    dW = sum dz h^T,    db = sum dz

So the backward pass only scales them, needs neither logits nor weights, and computes no product twice. Under
autocast, products are in its dtype; the softmax, the loss and the sums over chunks are in float32.

On a GPU dz overwrites z (`softmax_errors`), and the vocabulary is padded to a multiple of `ALIGNED` with words outside
the softmax: products of unaligned widths use slow kernels. In compiled code the whole loop is one operator. GPT-2 at 32
x 1024 in bfloat16 on an H200: three products of 2.5 TFLOP, 10.2 ms, and 3.1 ms for the softmax over 3.3 GB of logits.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clew.kernels import softmax_errors

LOGITS = {"cpu": 2**22}
OTHER_LOGITS = 2**26
LEAST_ROWS = 128
"""The maximum number of logits of a chunk by device, and the minimum number of rows: with fewer, reading W costs more
than the products."""
SHARE = 40
"""On a large GPU, chunks are larger: their logits take 1 / SHARE of its memory. With fewer chunks, dW is read and
written less often, and dh has enough tiles for all processors."""
SMALL = {"cpu": 2**18}
OTHER_SMALL = 2**22
"""With fewer logits, rows are not divided into chunks."""
ALIGNED = 64
"""On a GPU, the number of logit columns is a multiple of this."""


class Walked(NamedTuple):
    """The loss, the loss without smoothing, and the gradients of the loss, which are empty tensors if not needed."""

    loss: Tensor
    plain: Tensor
    hidden: Tensor
    weight: Tensor
    bias: Tensor


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    rows: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss, and the loss without smoothing, which has no gradient. Both are sums over the targets other than
    `ignore_index`."""
    hidden, targets = hidden.flatten(0, -2), targets.flatten()
    device = hidden.device.type
    if rows is None and not label_smoothing and len(hidden) * len(weight) < SMALL.get(device, OTHER_SMALL):
        nothing = -100 if ignore_index is None else ignore_index
        loss = F.cross_entropy(F.linear(hidden, weight, bias), targets, ignore_index=nothing, reduction="sum")
        return loss, loss.detach()
    if is_autocast(device) and hidden.dtype != torch.float64:
        hidden = hidden.to(torch.get_autocast_dtype(device))
    # Neither a Function's forward nor an operator can see whether gradients are enabled.
    needed = [torch.is_grad_enabled() and part is not None and part.requires_grad for part in (hidden, weight, bias)]
    arguments = (hidden, weight, bias, targets, label_smoothing, ignore_index, rows, *needed)
    if torch.compiler.is_compiling():
        loss, plain, *_ = operator(*arguments)
        return loss, plain
    # Eager code calls the Function: an operator would hide its products from FLOP counters.
    losses: tuple[Tensor, Tensor] = ChunkedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return losses


def is_autocast(device: str) -> bool:
    # Other devices have no autocast. `torch.amp.is_autocast_available` would break a compiled graph in torch 2.11.
    return device in ("cpu", "cuda", "mps", "xpu") and torch.is_autocast_enabled(device)


def chunk_rows(num_rows: int, vocabulary: int, share: int, multiple: int = 1) -> int:
    """Return the rows per chunk: chunks are as equal as possible in multiples of `multiple`, and hold at most `share`
    logits unless that gives fewer than LEAST_ROWS."""
    most = max(LEAST_ROWS, share // vocabulary) // multiple * multiple
    num_chunks = max(1, -(-num_rows // most))
    return max(1, -(-num_rows // (num_chunks * multiple)) * multiple)


class ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        loss, plain, *gradients = walk(*arguments)
        keep_gradients(ctx, arguments, gradients)
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor | None, _: Tensor | None) -> Any:
        return scaled_gradients(ctx, scale)


def keep_gradients(ctx: Any, arguments: Sequence[Any], gradients: Sequence[Tensor]) -> None:
    ctx.num_given, ctx.needed = len(arguments), arguments[-3:]
    ctx.save_for_backward(*gradients)
    ctx.set_materialize_grads(False)  # otherwise zeros of the size of W are created for outputs without a gradient


def scaled_gradients(ctx: Any, scale: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments: hidden, weight and bias come first, the rest have none."""
    needed = [part and scale is not None for part in ctx.needed]
    gradients = [gradient * scale if part else None for gradient, part in zip(ctx.saved_tensors, needed, strict=True)]
    return *gradients, *[None] * (ctx.num_given - len(gradients))


def walk(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    label_smoothing: float,
    ignore_index: int | None,
    rows: int | None,
    for_hidden: bool,
    for_weight: bool,
    for_bias: bool,
) -> Walked:
    """Compute the loss and its gradients. hidden (rows, dim) has the dtype of the products; each gradient has the dtype
    of its tensor."""
    device = hidden.device.type
    walk_over = walk_on_gpu if softmax_errors.is_supported(hidden) else walk_anywhere
    with torch.autocast(device, enabled=False) if is_autocast(device) else nullcontext():
        return walk_over(
            hidden, weight, bias, targets, label_smoothing, ignore_index, rows, (for_hidden, for_weight, for_bias)
        )


def walk_anywhere(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    label_smoothing: float,
    ignore_index: int | None,
    rows: int | None,
    needed: tuple[bool, bool, bool],
) -> Walked:
    gradients = Gradients(*needed)
    dtype, precise = inputs.dtype, torch.promote_types(inputs.dtype, torch.float32)
    rows = rows or chunk_rows(len(inputs), len(weight), LOGITS.get(inputs.device.type, OTHER_LOGITS))
    matrix, offset = weight.to(dtype), None if bias is None else bias.to(dtype)
    ignored = None if ignore_index is None else targets == ignore_index
    if ignored is not None:
        # Rows of zeros have finite logits and add nothing to dW, for any content of the padding.
        inputs, targets = inputs.masked_fill(ignored[:, None], 0.0), targets.masked_fill(ignored, 0)
    plain, uniform = inputs.new_zeros((), dtype=precise), inputs.new_zeros((), dtype=precise)
    for start in range(0, len(inputs), rows):
        part = slice(start, start + rows)
        x, target, skipped = inputs[part], targets[part, None], None if ignored is None else ignored[part]
        log_probs = F.linear(x, matrix, offset).log_softmax(-1, dtype=precise)  # (rows, vocabulary)
        plain = plain - sum_over(log_probs.gather(1, target)[:, 0], skipped)
        if label_smoothing:
            uniform = uniform - sum_over(log_probs.mean(1), skipped)
        if gradients.needed:
            error = log_probs.exp_()
            if label_smoothing:
                error -= label_smoothing / len(weight)
            error.scatter_add_(1, target, error.new_full((len(x), 1), label_smoothing - 1))
            gradients.add(error, x, matrix, skipped)
    return Walked(
        (1 - label_smoothing) * plain + label_smoothing * uniform,
        plain,
        *gradients.total(inputs, weight, bias, ignored),
    )


class Gradients:
    """dh, dW and db, as far as needed, accumulated over chunks."""

    def __init__(self, for_hidden: bool, for_weight: bool, for_bias: bool):
        self.for_hidden, self.for_weight, self.for_bias = for_hidden, for_weight, for_bias
        self.needed = for_hidden or for_weight or for_bias
        self.hidden: list[Tensor] = []
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None

    def add(self, error: Tensor, x: Tensor, matrix: Tensor, skipped: Tensor | None) -> None:
        """Add a chunk; `error` (rows, vocabulary) is dz."""
        if self.for_bias:
            bias = error.sum(0) if skipped is None else (~skipped).to(error.dtype) @ error
            self.bias = bias if self.bias is None else self.bias + bias
        precise, error = error.dtype, error.to(x.dtype)
        if self.for_hidden:
            self.hidden.append(error @ matrix)
        if self.for_weight:
            if self.weight is None:
                self.weight = (error.mT @ x).to(precise)
            else:
                self.weight = self.weight.addmm_(error.mT, x) if precise == x.dtype else self.weight.add_(error.mT @ x)

    def total(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, ignored: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients in the dtypes of their tensors; zeros if there were no rows, empty if not needed."""
        d_hidden, d_weight, d_bias = nothing(hidden), nothing(weight), nothing(weight if bias is None else bias)
        if self.for_hidden:
            d_hidden = self.hidden[0] if len(self.hidden) == 1 else torch.cat([hidden[:0], *self.hidden])
            d_hidden = d_hidden if ignored is None else d_hidden.masked_fill(ignored[:, None], 0.0)
        if self.for_weight:
            d_weight = torch.zeros_like(weight) if self.weight is None else self.weight.to(weight.dtype)
        if self.for_bias and bias is not None:
            d_bias = torch.zeros_like(bias) if self.bias is None else self.bias.to(bias.dtype)
        return d_hidden, d_weight, d_bias


def sum_over(values: Tensor, skipped: Tensor | None) -> Tensor:
    return values.sum() if skipped is None else values.masked_fill(skipped, 0.0).sum()


def nothing(like: Tensor) -> Tensor:
    return like.new_empty(0)


def walk_on_gpu(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    label_smoothing: float,
    ignore_index: int | None,
    rows: int | None,
    needed: tuple[bool, bool, bool],
) -> Walked:
    """Like `walk_anywhere`, in buffers that every chunk overwrites. The host never waits for the GPU."""
    for_hidden, for_weight, for_bias = needed
    num_rows, vocabulary = len(inputs), len(weight)
    rows = rows or chunk_rows(num_rows, vocabulary, share_of(inputs), LEAST_ROWS)
    matrix, offset = aligned(weight, inputs.dtype), None if bias is None else aligned(bias, inputs.dtype)
    if ignore_index is not None:
        # Otherwise 0 times a non-finite number would not be 0 in dW.
        inputs = inputs.masked_fill((targets == ignore_index)[:, None], 0.0)
    inputs, targets = inputs.contiguous(), targets.contiguous()
    logits = inputs.new_empty(min(rows, num_rows), len(matrix))
    costs = inputs.new_zeros(2, num_rows, dtype=torch.float32)  # plain and uniform, row by row
    d_hidden = torch.empty_like(inputs) if for_hidden else nothing(inputs)
    d_weight = nothing(weight)
    d_bias = (
        inputs.new_zeros(len(matrix), dtype=torch.float32) if for_bias else nothing(weight if bias is None else bias)
    )
    with torch.cuda.device(inputs.device) if inputs.is_cuda else nullcontext():
        for start in range(0, num_rows, rows):
            part = slice(start, start + rows)
            x = inputs[part]
            z = logits[: len(x)]
            torch.mm(x, matrix.mT, out=z) if offset is None else torch.addmm(offset, x, matrix.mT, out=z)
            softmax_errors.softmax_errors_(
                z,
                vocabulary,
                targets[part],
                costs[0, part],
                costs[1, part],
                label_smoothing=label_smoothing,
                ignore_index=ignore_index,
                errors=any(needed),
            )
            if for_hidden:
                torch.mm(z, matrix, out=d_hidden[part])
            if for_weight:
                d_weight = product(z.mT, x, None if start == 0 else d_weight)
            if for_bias:
                d_bias += z.sum(0, dtype=torch.float32)
    plain, uniform = costs.sum(1).unbind(0)
    loss = (1 - label_smoothing) * plain + label_smoothing * uniform
    if for_weight:
        d_weight = d_weight[:vocabulary].to(weight.dtype) if num_rows else torch.zeros_like(weight)
    if for_bias and bias is not None:
        d_bias = d_bias[:vocabulary].to(bias.dtype)
    return Walked(loss, plain.clone(), d_hidden, d_weight, d_bias)


def share_of(x: Tensor) -> int:
    """Return the maximum number of logits of a chunk on the GPU of x."""
    if not x.is_cuda:
        return OTHER_LOGITS
    return max(OTHER_LOGITS, torch.cuda.get_device_properties(x.device).total_memory // (SHARE * x.element_size()))


def aligned(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a weight or bias in a dtype, padded with zeros to a multiple of `ALIGNED` rows."""
    length = len(weight)
    if length % ALIGNED == 0:
        return weight.to(dtype).contiguous()
    whole = weight.new_empty(length + -length % ALIGNED, *weight.shape[1:], dtype=dtype)
    whole[:length] = weight
    whole[length:] = 0.0
    return whole


def product(left: Tensor, right: Tensor, total: Tensor | None) -> Tensor:
    """Return left @ right in float32, added to `total` if given."""
    if left.dtype == torch.float32:
        return left @ right if total is None else total.addmm_(left, right)
    if not adds_in_float32(left.device, left.dtype):
        return (left @ right).float() if total is None else total.add_(left @ right)
    if total is None:
        return torch.mm(left, right, out_dtype=torch.float32)  # type: ignore[call-overload, no-any-return, unused-ignore]
    return torch.addmm(total, left, right, out_dtype=torch.float32, out=total)  # type: ignore[call-overload, no-any-return, unused-ignore]


@lru_cache(maxsize=16)
def adds_in_float32(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether products of this dtype can be added to a float32 sum without rounding them first, as on CUDA since torch
    2.10.

    This is tried once per device and dtype, without waiting for the GPU, so it may be tried during a capture.
    """
    part = torch.zeros(16, 16, dtype=dtype, device=device)
    try:
        torch.addmm(part.float(), part, part, out_dtype=torch.float32)  # type: ignore[call-overload, unused-ignore]
    except (RuntimeError, TypeError):
        return False
    return True


@torch.library.custom_op(
    "clew::cross_entropy",
    mutates_args=(),
    schema=(
        "(Tensor hidden, Tensor weight, Tensor? bias, Tensor targets, float label_smoothing, int? ignore_index, int?"
        " rows, bool for_hidden, bool for_weight, bool for_bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    ),
)
def operator(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Run `walk` as an operator for compiled code."""
    return tuple(walk(*arguments))  # type: ignore[return-value]


@operator.register_fake
def _(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    label_smoothing: float,
    ignore_index: int | None,
    rows: int | None,
    *needed: bool,
) -> tuple[Tensor, ...]:
    plain = hidden.new_empty((), dtype=torch.promote_types(hidden.dtype, torch.float32))
    parts = (hidden, weight, weight if bias is None else bias)
    gradients = [
        part.new_empty(part.shape) if is_needed else nothing(part)
        for part, is_needed in zip(parts, needed, strict=True)
    ]
    return plain, torch.empty_like(plain), *gradients


def _keep(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
    _, plain, *gradients = output
    keep_gradients(ctx, inputs, gradients)
    ctx.mark_non_differentiable(plain, *gradients)


@once_differentiable
def _backward(ctx: Any, scale: Tensor | None, *_: Tensor | None) -> Any:
    return scaled_gradients(ctx, scale)


operator.register_autograd(_backward, setup_context=_keep)
