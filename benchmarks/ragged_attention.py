"""Attention over ragged batches in bfloat16 beside the same in float32: forward and backward, no two batches of one
shape.

On a GPU an implementation that plans for each shape it meets (cuDNN's) takes 28 ms of the CPU's time a call here, and
bfloat16 is then some times slower than float32 instead of faster. A CPU without bfloat16 arithmetic is slower in it
whatever is done.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from benchmarks.side_by_side import Comparison, compare, device
from clew.core.types import Memory
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import SelfAttention

DIM, HEADS, SHORTEST, LONGEST = 256, 4, 12, 80
CALLS = 4
"""Batches of a round."""

Call = Callable[[nn.Module, Tensor, Tensor], Tensor]


def shapes(tokens: int) -> Iterator[tuple[int, int]]:
    """Pairs of rows and length with about as many tokens, each pair once before any comes again."""
    while True:
        for wider in range(20):
            for length in range(SHORTEST, LONGEST):
                yield tokens // length + wider, length


def batches(tokens: int, place: torch.device, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    for rows, length in shapes(tokens):
        lengths = torch.linspace(length // 2, length, rows, device=place).long()
        mask = torch.arange(length, device=place) < lengths[:, None]
        yield torch.randn(rows, length, DIM, device=place, dtype=dtype, requires_grad=True), mask


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
    place = device()
    tokens, rounds = (8192, 15) if place.type == "cuda" else (128, 3)

    def round_of(build: Callable[[], nn.Module], call: Call, dtype: torch.dtype) -> Callable[[], None]:
        layer, source = build().to(place, dtype), batches(tokens, place, dtype)

        def one() -> None:
            for _ in range(CALLS):
                call(layer, *next(source)).sum().backward()

        return one

    return [
        compare(
            f"ragged attention, bfloat16, {name}",
            "the same in float32",
            round_of(build, call, torch.bfloat16),
            round_of(build, call, torch.float32),
            tokens=CALLS * tokens,
            rounds=rounds,
            warmup=3 if place.type == "cuda" else 1,
        )
        for name, (build, call) in LAYERS.items()
    ]


if __name__ == "__main__":
    for comparison in run():
        print(comparison, flush=True)
