"""Attention over ragged batches in bfloat16, compared with float32: forward and backward, with a new shape in every
batch.

On a GPU, an implementation that makes a plan for each new shape (cuDNN's) takes 28 ms of CPU time per call here, which
makes bfloat16 several times slower than float32. A CPU without bfloat16 arithmetic is always slower in bfloat16.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from benchmarks.side_by_side import Comparison, compare, default_device
from clew.core.types import Memory
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import SelfAttention

DIM, HEADS, SHORTEST, LONGEST = 256, 4, 12, 80
CALLS = 4
"""Batches per round."""

Call = Callable[[nn.Module, Tensor, Tensor], Tensor]


def shapes(tokens: int) -> Iterator[tuple[int, int]]:
    """Yield pairs (rows, length) with about `tokens` tokens, without repeating a pair before all have been used."""
    while True:
        for extra_rows in range(20):
            for length in range(SHORTEST, LONGEST):
                yield tokens // length + extra_rows, length


def batches(tokens: int, device: torch.device, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    for rows, length in shapes(tokens):
        lengths = torch.linspace(length // 2, length, rows, device=device).long()
        mask = torch.arange(length, device=device) < lengths[:, None]
        yield torch.randn(rows, length, DIM, device=device, dtype=dtype, requires_grad=True), mask


def attend(layer: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    return layer(x, mask)[0]


def attend_memory(layer: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    return layer(x, None, layer.initial_state(len(x), Memory(x, mask), like=x))[0]


LAYERS: dict[str, tuple[Callable[[], nn.Module], Call]] = {
    "causal": (lambda: SelfAttention(DIM, HEADS), attend),
    "grouped heads": (lambda: SelfAttention(DIM, HEADS, num_kv_heads=2), attend),
    "both sides": (lambda: SelfAttention(DIM, HEADS, causal=False), attend),
    "over a memory": (lambda: CrossAttention(DIM, HEADS), attend_memory),
}


def run() -> list[Comparison]:
    device = default_device()
    tokens, rounds = (8192, 15) if device.type == "cuda" else (128, 3)

    def make_round(build: Callable[[], nn.Module], call: Call, dtype: torch.dtype) -> Callable[[], None]:
        layer, source = build().to(device, dtype), batches(tokens, device, dtype)

        def run_round() -> None:
            for _ in range(CALLS):
                call(layer, *next(source)).sum().backward()

        return run_round

    return [
        compare(
            f"ragged attention, bfloat16, {name}",
            "the same in float32",
            make_round(build, call, torch.bfloat16),
            make_round(build, call, torch.float32),
            tokens=CALLS * tokens,
            rounds=rounds,
            warmup=3 if device.type == "cuda" else 1,
        )
        for name, (build, call) in LAYERS.items()
    ]


if __name__ == "__main__":
    for comparison in run():
        print(comparison, flush=True)
