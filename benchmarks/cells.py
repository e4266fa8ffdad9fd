"""Cells over sequences on a GPU: forwards and backwards by the generated kernel, beside cuDNN, and how far from float64
they are.

    python -m benchmarks.cells [CELL ...] [--sizes BATCHxLENGTHxDIM ...] [--types bfloat16 float32]

Milliseconds are medians of CUDA graphs of one forward and one backward pass each, gradients of weights and inputs
included. Differences are |ours - reference| / |reference| over all values, or the largest over gradients, of 11 rows
and 24 steps, beside those of the equation in the same type.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn

from clew.bench.workloads.cells import Leaky
from clew.core.state import leaves
from clew.kernels.cells.on_gpu import walked
from clew.layers.cells import CELLS, Cell
from clew.layers.recurrent import Recurrent


def projected(input_dim: int, dim: int) -> Cell:
    return CELLS["projected_lstm"](input_dim, dim // 4)  # `dim` wide inside


KINDS = {**CELLS, "projected_lstm": projected, "leaky": Leaky}
PEERS = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}


def run(cell: Cell, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    found = walked(cell, x, mask, cell.initial_state(len(x), like=x))
    assert found is not None, "the kernel does not run this"
    return found[0], leaves(found[1])


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of a call as a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(7):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def both_ways(forward: Callable[[], Tensor], parameters: list[Tensor], of_y: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(forward(), parameters, of_y)


def difference(found: list[Tensor], right: list[Tensor]) -> float:
    parts = [((a.double() - b.double()).norm() / b.double().norm()).item() for a, b in zip(found, right, strict=True)]
    return max(parts)


def agreement(name: str, dim: int, dtype: torch.dtype) -> str:
    """Values and gradients on a few steps, some rows shorter, against float64."""
    torch.manual_seed(0)
    batch, length = 11, 24
    exact = Recurrent(KINDS[name](dim, dim)).cuda().double()
    x = torch.randn(batch, length, dim, device="cuda", dtype=torch.float64)
    mask = torch.arange(length, device="cuda") < torch.randint(1, length + 1, (batch, 1), device="cuda")
    of_y = torch.randn(batch, length, exact.dim, device="cuda", dtype=torch.float64) * mask[..., None]
    ours = Recurrent(KINDS[name](dim, dim)).cuda().to(dtype)
    for weight, rounded in zip(exact.parameters(), ours.parameters(), strict=True):
        rounded.data.copy_(weight)
        weight.data.copy_(rounded)
    small = x.to(dtype).requires_grad_()
    large = small.detach().double().requires_grad_()
    of_y = of_y.to(dtype)

    def gradients(y: Tensor, given: Tensor, module: nn.Module) -> list[Tensor]:
        return list(torch.autograd.grad(y, [given, *module.parameters()], of_y.to(y.dtype)))

    def seen(y: Tensor) -> Tensor:
        return y.detach() * mask[..., None]

    reference, state = exact.loop(large, mask, exact.initial_state(batch, like=large))
    y, states = run(ours.cell, small, mask)
    written, _ = ours.loop(small, mask, ours.initial_state(batch, like=small))
    right = gradients(reference, large, exact)
    values = difference([seen(y), *states], [seen(reference), *leaves(state.cell)])
    ahead = difference([seen(written)], [seen(reference)])
    found, plain = difference(gradients(y, small, ours), right), difference(gradients(written, small, ours), right)
    return f"values {values:.1e} (equation {ahead:.1e}), gradients {found:.1e} ({plain:.1e})"


def show(name: str, size: str, dtype: torch.dtype) -> None:
    batch, length, dim = map(int, size.split("x"))
    cell = KINDS[name](dim, dim).cuda().to(dtype)
    x = torch.randn(batch, length, dim, device="cuda", dtype=dtype, requires_grad=True)
    of_y = torch.randn(batch, length, cell.dim, device="cuda", dtype=dtype)
    label = f"{name:15} {size:14} {str(dtype)[6:]:9}"
    try:
        ours = timed(both_ways(lambda: run(cell, x)[0], [x, *cell.parameters()], of_y))
        with torch.no_grad():
            ahead = timed(lambda: run(cell, x)[0])
    except AssertionError as why:
        print(f"{label} {why}", flush=True)
        return
    print(f"{label} {ours:7.2f} ms, forwards alone {ahead:6.2f}; {agreement(name, dim, dtype)}", flush=True)


def show_peer(name: str, size: str, dtype: torch.dtype) -> None:
    batch, length, dim = map(int, size.split("x"))
    peer = PEERS[name](dim, dim, batch_first=True).cuda().to(dtype)
    x = torch.randn(batch, length, dim, device="cuda", dtype=dtype, requires_grad=True)
    time = timed(both_ways(lambda: peer(x)[0], [x, *peer.parameters()], torch.randn_like(x)))
    print(f"{name:15} {size:14} {str(dtype)[6:]:9} {time:7.2f} ms by cuDNN", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cells", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "cells", nargs="*", default=list(KINDS), metavar="CELL", help=f"of {', '.join(KINDS)}; without one all"
    )
    parser.add_argument("--sizes", nargs="+", default=["16x1024x768"], metavar="BATCHxLENGTHxDIM")
    parser.add_argument(
        "--types", nargs="+", default=["bfloat16", "float32"], choices=["bfloat16", "float16", "float32"]
    )
    options = parser.parse_args()
    for dtype in (getattr(torch, name) for name in options.types):
        for size in options.sizes:
            for name in options.cells:
                show(name, size, dtype)
            for name in PEERS:
                if name in options.cells:
                    for peer_type in (dtype, torch.float16):
                        show_peer(name, size, peer_type)


if __name__ == "__main__":
    main()
