"""Cells over sequences on a GPU: time of the generated kernel, forward and backward, compared with cuDNN, and its
difference from float64.

    python -m benchmarks.cells [CELL ...] [--sizes BATCHxLENGTHxDIM ...] [--types bfloat16 float32]

Milliseconds are medians over replays of a CUDA graph of one forward and one backward pass, which computes the gradients
of weights and inputs. Differences are |ours - reference| / |reference| over all values, or the largest over gradients,
for 11 rows of 24 steps. In brackets are those of the equation in the same type.
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
    return CELLS["projected_lstm"](input_dim, dim // 4)  # `dim` is the width of its cell state


KINDS = {**CELLS, "projected_lstm": projected, "leaky": Leaky}
PEERS = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}


def run_kernel(cell: Cell, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    result = walked(cell, x, mask, cell.initial_state(len(x), like=x))
    assert result is not None, "not supported by the kernel"
    return result[0], leaves(result[1])


def timed(call: Callable[[], object]) -> float:
    """Return the median milliseconds of a call, captured as a CUDA graph."""
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


def forward_backward(
    forward: Callable[[], Tensor], parameters: list[Tensor], output_gradient: Tensor
) -> Callable[[], object]:
    return lambda: torch.autograd.grad(forward(), parameters, output_gradient)


def difference(actual: list[Tensor], expected: list[Tensor]) -> float:
    """Compute the largest relative difference of any tensor."""
    pairs = zip(actual, expected, strict=True)
    return max(((a.double() - b.double()).norm() / b.double().norm()).item() for a, b in pairs)


def agreement(name: str, dim: int, dtype: torch.dtype) -> str:
    """Compare values and gradients with float64 on a few steps, with rows of different lengths."""
    torch.manual_seed(0)
    batch, length = 11, 24
    exact = Recurrent(KINDS[name](dim, dim)).cuda().double()
    x = torch.randn(batch, length, dim, device="cuda", dtype=torch.float64)
    mask = torch.arange(length, device="cuda") < torch.randint(1, length + 1, (batch, 1), device="cuda")
    output_gradient = torch.randn(batch, length, exact.dim, device="cuda", dtype=torch.float64) * mask[..., None]
    ours = Recurrent(KINDS[name](dim, dim)).cuda().to(dtype)
    for weight, rounded in zip(exact.parameters(), ours.parameters(), strict=True):
        rounded.data.copy_(weight)
        weight.data.copy_(rounded)
    small = x.to(dtype).requires_grad_()
    large = small.detach().double().requires_grad_()
    output_gradient = output_gradient.to(dtype)

    def gradients(y: Tensor, inputs: Tensor, module: nn.Module) -> list[Tensor]:
        return list(torch.autograd.grad(y, [inputs, *module.parameters()], output_gradient.to(y.dtype)))

    def masked(y: Tensor) -> Tensor:
        return y.detach() * mask[..., None]

    reference, state = exact.loop(large, mask, exact.initial_state(batch, like=large))
    y, states = run_kernel(ours.cell, small, mask)
    by_equation, _ = ours.loop(small, mask, ours.initial_state(batch, like=small))
    values = difference([masked(y), *states], [masked(reference), *leaves(state.cell)])
    equation_values = difference([masked(by_equation)], [masked(reference)])
    expected = gradients(reference, large, exact)
    kernel, equation = (difference(gradients(each, small, ours), expected) for each in (y, by_equation))
    return f"values {values:.1e} (equation {equation_values:.1e}), gradients {kernel:.1e} ({equation:.1e})"


def show(name: str, size: str, dtype: torch.dtype) -> None:
    batch, length, dim = map(int, size.split("x"))
    cell = KINDS[name](dim, dim).cuda().to(dtype)
    x = torch.randn(batch, length, dim, device="cuda", dtype=dtype, requires_grad=True)
    output_gradient = torch.randn(batch, length, cell.dim, device="cuda", dtype=dtype)
    label = f"{name:15} {size:14} {str(dtype)[6:]:9}"
    try:
        ours = timed(forward_backward(lambda: run_kernel(cell, x)[0], [x, *cell.parameters()], output_gradient))
        with torch.no_grad():
            forward = timed(lambda: run_kernel(cell, x)[0])
    except AssertionError as error:
        print(f"{label} {error}", flush=True)
        return
    print(f"{label} {ours:7.2f} ms, forward only {forward:6.2f}; {agreement(name, dim, dtype)}", flush=True)


def show_peer(name: str, size: str, dtype: torch.dtype) -> None:
    batch, length, dim = map(int, size.split("x"))
    peer = PEERS[name](dim, dim, batch_first=True).cuda().to(dtype)
    x = torch.randn(batch, length, dim, device="cuda", dtype=dtype, requires_grad=True)
    time = timed(forward_backward(lambda: peer(x)[0], [x, *peer.parameters()], torch.randn_like(x)))
    print(f"{name:15} {size:14} {str(dtype)[6:]:9} {time:7.2f} ms, cuDNN", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cells", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "cells",
        nargs="*",
        default=list(KINDS),
        metavar="CELL",
        help=f"cells to measure: {', '.join(KINDS)} (default: all)",
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
