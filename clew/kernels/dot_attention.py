"""torch's scaled dot-product attention: softmax(scale * Q K^T + bias) V without holding the weights where the device has such a kernel.

Which form is taken follows from what each query may see (`Sight`): a plain triangle needs no mask even where rows are padded, and linear
biases under a causal mask are extra columns of query and key (`linear_biases`; on a GPU only on trial, see `on_trial`). Everything else
takes a mask or a bias of query x key.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from clew.core.sight import Sight
from clew.kernels.flex_attention import flex_attention, takes_flex
from clew.kernels.linear_biases import takes_columns, with_columns

PLANNED = 512
"""On a GPU cuDNN plans anew for each shape, some 30 ms of the CPU's time a call. It is left the shapes that recur and gain by it: whole
sequences of this length or more, without padding."""
WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def dot_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    seen: Sight | Tensor | None,
    dropout: float = 0.0,
    bias: Callable[[], Tensor] | None = None,
    slopes: Tensor | None = None,
) -> Tensor:
    """(batch, heads, query, dim); keys and values may have fewer heads. `seen` is a tensor that is True where a query may look, a Sight, or
    None where all see all. `bias` gives (batch, heads, query, key); where `slopes` c (heads,) are given it is -c |i - j|."""
    if isinstance(seen, Sight) and (bias is None or slopes is not None) and takes_flex(query, key, value, seen, slopes, dropout):
        context = flex_attention(query, key, value, seen, slopes, scale)
        if context is not None:
            return context
    width, columns = value.shape[-1], False
    if slopes is not None and isinstance(seen, Sight) and takes_columns(query, value, seen):
        query, key, value = with_columns(query, key, value, slopes, scale, seen.key_index, in_bits=query.is_cuda)
        bias, columns = None, True
    causal, padded, visible = False, False, None
    if isinstance(seen, Sight):
        padded = seen.padded
        causal = seen.is_triangle and bias is None and not (padded and torch.compiler.is_exporting())
        visible = None if causal or seen.is_whole else seen.visible()
    else:
        visible = seen
    if bias is not None:
        added = bias().to(query.dtype)
        visible = added if visible is None else added.masked_fill(~visible, float("-inf"))
    plans = visible is None and not padded and query.shape[2] == key.shape[2] >= PLANNED and not columns
    context = attend(query, key, value, scale=scale, visible=visible, causal=causal, dropout=dropout, plans=plans)
    return context[..., :width] if columns else context


def needs_bias(query: Tensor, key: Tensor, value: Tensor, seen: Sight, slopes: Tensor | None, dropout: float) -> bool:
    """Whether `dot_attention` with a bias would have to hold it."""
    return slopes is None or not (takes_columns(query, value, seen) or takes_flex(query, key, value, seen, slopes, dropout))


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, visible: Tensor | None, causal: bool, dropout: float, plans: bool
) -> Tensor:
    """scaled_dot_product_attention where its fast implementations take what it is given; `plans` leaves cuDNN among them."""
    on_gpu = query.device.type == "cuda"
    half = query.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled(query.device.type)
    batch, heads, length, _ = query.shape
    if key.shape[1] != heads and length == 1 and (visible is None or visible.shape[1] == 1):
        # One position: the queries of a group see the same keys, so that they can be the queries of one head.
        query = query.reshape(batch, key.shape[1], -1, query.shape[-1])
        causal = False
    elif key.shape[1] != heads and not (on_gpu and half and visible is None):
        # Of the implementations without query x key only flash attention reads grouped heads, in half precision and without a mask.
        repeats = heads // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    width = value.shape[-1]
    if on_gpu and visible is not None and (query.shape[-1] % 8 or width % 8):  # memory-efficient attention reads vectors of 8
        query, key, value = (F.pad(part, (0, -part.shape[-1] % 8)) for part in (query, key, value))

    def call() -> Tensor:
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=visible,
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=key.shape[1] != query.shape[1],
        )

    if not on_gpu or plans or not half or torch.compiler.is_exporting():
        context = call()
    elif torch.compiler.is_compiling():
        with sdpa_kernel(WITHOUT_CUDNN):
            context = call()
    else:
        context = without_cudnn(call)
    context = context[..., :width] if value.shape[-1] != width else context
    return context if context.shape[1] == heads else context.reshape(batch, heads, length, width)


def without_cudnn(call: Callable[[], Tensor]) -> Tensor:
    """As `sdpa_kernel(WITHOUT_CUDNN)`, whose bookkeeping costs more than a small attention does."""
    if not torch.backends.cuda.cudnn_sdp_enabled():
        return call()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        return call()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
