"""Attention with linear biases, windows and documents at length 4096, forward and backward, compared with
scaled_dot_product_attention.

The peers are plain causal attention, which does less work, and the same attention with a bias or a mask of shape
(query, key), which is built before the clock starts. Sizes: 4 rows of 16 heads of 64 in bfloat16 on a GPU, one row of
4 heads in float32 on a CPU. `python -m benchmarks.alibi` on a GPU also prints the memory that each of them takes at
length 4096 and 8192: twice as much if memory grows with the length, four times as much if it grows with its square.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.side_by_side import Comparison, compare, default_device
from clew.core.masks import advance
from clew.core.sight import Sight
from clew.layers.attention import Attention
from clew.layers.positions import ALiBi
from clew.layers.scores import ScaledDot

LENGTH, DIM, WINDOW, DOCUMENT = 4096, 64, 256, 512


class Setting(NamedTuple):
    """Attention at one length: its inputs, a gradient of its output, and what each query sees."""

    inputs: list[Tensor]
    gradient: Tensor
    full: Sight
    window: Sight
    in_documents: Sight
    plain: Attention
    biased: Attention


def setting(device: torch.device, length: int) -> Setting:
    batch, heads, dtype = (4, 16, torch.bfloat16) if device.type == "cuda" else (1, 4, torch.float32)
    inputs = [torch.randn(batch, heads, length, DIM, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
    like = torch.zeros(batch, length, 1, device=device)
    documents = (1 + torch.arange(length, device=device) // DOCUMENT).expand(batch, -1)
    places, (document_places, _) = advance(None, None, like)[0], advance(None, documents, like)
    full = Sight(places, places.index, causal=True, aligned=True)
    in_documents = Sight(document_places, document_places.index, causal=True, documents=True, padded=True, aligned=True)
    plain, biased = (
        Attention(ScaledDot(DIM, DIM), position).to(device) for position in (None, ALiBi(heads * DIM, heads, DIM))
    )
    return Setting(inputs, torch.randn_like(inputs[0]), full, full._replace(window=WINDOW), in_documents, plain, biased)


def run() -> list[Comparison]:
    device = default_device()
    inputs, gradient, full, window, in_documents, plain, biased = setting(device, LENGTH)
    dtype, batch = inputs[0].dtype, len(inputs[0])

    def step(attend: Callable[..., Tensor]) -> Callable[[], None]:
        def call() -> None:
            attend(*inputs).backward(gradient)

        return call

    def ours(attention: Attention, sight: Sight) -> Callable[[], None]:
        return step(lambda query, key, value: attention(query, key, value, sight.places, sight.key_index, sight))

    def masked(sight: Sight, bias: Tensor | None = None) -> Callable[[], None]:
        mask = sight.visible()
        if bias is not None:
            mask = bias.to(dtype).masked_fill(~mask, float("-inf"))
        return step(partial(F.scaled_dot_product_attention, attn_mask=mask))

    assert biased.position is not None
    bias = biased.position.scores(inputs[0].detach(), full.key_index, full.key_index)
    causal = step(partial(F.scaled_dot_product_attention, is_causal=True))
    pairs: list[tuple[str, str, Callable[[], None], Callable[[], None]]] = [
        ("ALiBi at 4096", "plain causal", ours(biased, full), causal),
        ("ALiBi at 4096", "with a bias tensor", ours(biased, full), masked(full, bias)),
        (f"a window of {WINDOW} at 4096", "plain causal", ours(plain, window), causal),
        (f"a window of {WINDOW} at 4096", "with a mask", ours(plain, window), masked(window)),
        (f"ALiBi, a window of {WINDOW}", "with a bias tensor", ours(biased, window), masked(window, bias)),
        (f"documents of {DOCUMENT} at 4096", "with a mask", ours(plain, in_documents), masked(in_documents)),
        ("ALiBi in documents", "with a bias tensor", ours(biased, in_documents), masked(in_documents, bias)),
    ]
    rounds, warmup = (15, 3) if device.type == "cuda" else (5, 1)
    return [
        compare(
            workload,
            peer,
            ours_step,
            peer_step,
            tokens=batch * LENGTH,
            rounds=rounds,
            warmup=warmup,
        )
        for workload, peer, ours_step, peer_step in pairs
    ]


def memory(length: int) -> dict[str, float]:
    """Measure the peak memory of a forward and a backward pass on a GPU in MiB, without inputs and their gradients."""
    inputs, gradient, full, window, in_documents, plain, biased = setting(torch.device("cuda"), length)
    peaks = {}
    for name, attention, sight in (
        ("plain causal", plain, full),
        ("ALiBi", biased, full),
        (f"a window of {WINDOW}", plain, window),
        (f"documents of {DOCUMENT}", plain, in_documents),
        ("ALiBi in documents", biased, in_documents),
    ):
        for _ in range(2):  # the first call compiles, and allocates the gradients
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            attention(*inputs, sight.places, sight.key_index, sight).backward(gradient)
            torch.cuda.synchronize()
            peaks[name] = (torch.cuda.max_memory_allocated() - before) / 2**20
    return peaks


if __name__ == "__main__":
    for comparison in run():
        print(comparison, flush=True)
    if default_device().type == "cuda":
        shorter, longer = memory(LENGTH), memory(2 * LENGTH)
        for workload, size in shorter.items():
            times = longer[workload] / size
            print(
                f"{workload:42} {size:,.0f} MiB at {LENGTH}, {longer[workload]:,.0f} MiB at {2 * LENGTH}: {times:.2f}x",
                flush=True,
            )
