"""torch's scaled dot-product attention: softmax(scale * Q K^T + bias) V without holding the weights where the device has such a kernel."""

import torch
import torch.nn.functional as F
from torch import Tensor


def dot_attention(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, visible: Tensor | None, causal: bool, bias: Tensor | None, dropout: float
) -> Tensor:
    """(batch, heads, query, dim); keys and values may have fewer heads. `causal` is the square triangle, from the first position on."""
    if bias is not None:
        if causal:
            square = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
            visible = square if visible is None else visible & square
            causal = False
        bias = bias.to(query.dtype)
        visible = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
    if key.shape[1] != query.shape[1] and query.device.type == "cpu":
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=key.shape[1] != query.shape[1]
    )
