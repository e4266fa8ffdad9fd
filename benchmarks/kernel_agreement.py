"""`python -m benchmarks.kernel_agreement`: compare every kernel of clew.kernels with its equation, on the GPU if there
is one.

Values and gradients of layers are compared with the equation in float64, by the relative error |actual - expected| /
|expected| over all outputs or all gradients. A kernel in float32, or in bfloat16 under autocast, may have a few times
the error of the equation in the same precision. The exit status is 1 if an error is larger, or if a kernel has no case.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.side_by_side import default_device
from clew.core.types import Memory
from clew.kernels import KERNELS, only_equations
from clew.kernels.flex_attention import describe_shapes
from clew.kernels.query_blocks import LONG
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS
from clew.layers.losses import CrossEntropy
from clew.layers.losses.ctc import CTC
from clew.layers.positions import POSITIONS
from clew.layers.recurrent import Recurrent
from clew.layers.shapes.grid_lstm import GridLSTM

FLOORS = {torch.float32: 2e-5, torch.bfloat16: 5e-3}
"""Errors that are always allowed, for sums in another order."""
MAX_RATIO = 3.0
"""The largest error of a kernel, as a multiple of the error of its equation."""
BATCH, DIM = 2, 64
STEPS_ONLY = {"decode_attention", "memory_attention", "rotary"}
"""Kernels of single decoding steps, which have no gradients. `tests/kernels` compares their values."""


class Case(NamedTuple):
    """`call(module, x)` returns the outputs to compare."""

    name: str
    kernel: str
    module: nn.Module
    x: Tensor
    call: Callable[[Any, Tensor], tuple[Tensor, ...]]


class Output(nn.Module):
    """An output layer over a vocabulary, and its loss."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.loss = CrossEntropy(0.1)
        self.output = nn.Linear(DIM, vocabulary)


def ragged(length: int) -> Tensor:
    lengths = torch.tensor([[length], [length - length // 3]], device=default_device())
    return torch.arange(length, device=default_device()) < lengths


def documents(length: int, size: int) -> Tensor:
    return ragged(length) * (1 + torch.arange(length, device=default_device()) // size)


def sequence(name: str, kernel: str, layer: nn.Module, length: int, mask: Tensor | None = None) -> Case:
    real = torch.ones(BATCH, length, 1, device=default_device()) if mask is None else (mask > 0)[..., None]
    return Case(name, kernel, layer, torch.randn(BATCH, length, DIM), lambda layer, x: (layer(x, mask)[0] * real,))


def attention(
    name: str,
    length: int,
    mask: Tensor | None = None,
    *,
    kernel: str = "dot_attention",
    position: str = "none",
    heads: int = 4,
    **options: Any,
) -> Case:
    encoding = POSITIONS[position](DIM, heads, DIM // 4)
    layer = SelfAttention(DIM, heads, position=encoding, **{"head_dim": DIM // 4, **options})
    return sequence(f"attention, {name}", kernel, layer, length, mask)


def cases() -> Iterator[Case]:
    """Yield at least one case for each kernel, and one for each code path of attention."""
    for name, cell in {
        "elman_tanh": CELLS["elman"](DIM, DIM),
        "elman_relu": CELLS["elman"](DIM, DIM, nonlinearity="relu"),
        "lstm": CELLS["lstm"](DIM, DIM),
        "projected_lstm": CELLS["projected_lstm"](DIM, DIM // 2, hidden_dim=DIM),
        "gru": CELLS["gru"](DIM, DIM),
    }.items():
        yield sequence(name, name, Recurrent(cell), 24, ragged(24))
    # On a CPU these run as a walk of torch operations, or as the loop.
    for name in ("peephole_lstm", "layernorm_lstm", "coupled_lstm"):
        yield sequence(name, "walk_on_gpu", Recurrent(CELLS[name](DIM, DIM)), 24, ragged(24))
    yield Case(
        "grid_lstm",
        "grid_lstm",
        GridLSTM(8, 16, directions=4),
        torch.randn(BATCH, 5, 6, 8),
        lambda layer, x: (layer(x)[0],),
    )
    targets = torch.randint(1, 500, (BATCH, 40), device=default_device())
    yield Case(
        "cross_entropy",
        "cross_entropy",
        Output(500),
        torch.randn(BATCH, 40, DIM),
        lambda module, x: tuple(differentiable_terms(module, x, targets)),
    )
    labels = targets[:, :8] % 9 + 1
    yield Case(
        "ctc", "ctc", CTC(), torch.randn(BATCH, 40, 10), lambda ctc, x: (ctc.log_likelihood(x, labels, ragged(40)),)
    )
    memory = torch.randn(BATCH, 50, DIM, device=default_device())
    yield Case(
        "attention, over a memory",
        "dot_attention",
        CrossAttention(DIM, 4),
        torch.randn(BATCH, 20, DIM),
        lambda layer, x: attend_memory(layer, x, memory),
    )
    long = 4096 if default_device().type == "cuda" else 512
    yield attention("causal", long)
    yield attention("causal, ragged", 100, ragged(100))
    yield attention("causal, ragged, grouped", 100, ragged(100), num_kv_heads=2)
    yield attention("both sides, ragged", 100, ragged(100), causal=False)
    yield attention("both sides, ragged, grouped", 99, ragged(99), causal=False, num_kv_heads=2)
    yield attention("heads of 20, ragged", 75, ragged(75), causal=False, head_dim=20)
    yield attention("ALiBi", long, position="alibi")
    yield attention("ALiBi, ragged, grouped", 300, ragged(300), position="alibi", num_kv_heads=1)
    yield attention("ALiBi, short", 60, ragged(60), position="alibi")
    # Lengths up to 512 have the same number of blocks, so that FlexAttention compiles few kernels.
    yield attention("ALiBi, both sides", 400, position="alibi", causal=False)
    yield attention("ALiBi, both sides, ragged", 512, ragged(512), position="alibi", causal=False)
    yield attention("ALiBi, documents", 400, documents(400, 170), position="alibi")
    yield attention("documents", 512, documents(512, 200))
    yield attention("documents, grouped", 512, documents(512, 200), num_kv_heads=2)
    yield attention("documents, both sides", 500, documents(500, 190), causal=False)
    yield attention("a wide window", 400, window=300)
    yield attention("a window", 400, ragged(400), kernel="window_blocks", window=50, num_kv_heads=2)
    yield attention("a window, both sides", 500, kernel="window_blocks", window=50, causal=False)
    yield attention("ALiBi, a window", 400, documents(400, 90), kernel="window_blocks", window=50, position="alibi")
    yield attention("relative, long", LONG, kernel="query_blocks", position="relative", heads=1)
    yield attention("relative, a window", 400, ragged(400), kernel="window_blocks", window=20, position="relative")


def differentiable_terms(module: Output, x: Tensor, targets: Tensor) -> Iterator[Tensor]:
    for term in module.loss(x, module.output.weight, module.output.bias, targets):
        if isinstance(term, Tensor) and term.requires_grad:
            yield term


def attend_memory(layer: CrossAttention, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    memory = memory.to(x.dtype)
    return (layer(x, None, layer.initial_state(len(x), Memory(memory, ragged(memory.shape[1])), like=x))[0],)


def compute(
    case: Case, dtype: torch.dtype, weights: list[Tensor], by_equation: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Compute the outputs, and the gradients of the input and the parameters, as float64.

    The gradients are those of a weighted sum of the outputs. If `weights` is empty, random weights are appended to it.
    """
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    module = copy.deepcopy(case.module).to(default_device(), wide)
    x = case.x.to(default_device(), wide).requires_grad_()
    autocast = torch.autocast(default_device().type, dtype) if dtype == torch.bfloat16 else nullcontext()
    with only_equations() if by_equation else nullcontext():
        with autocast:
            outputs = case.call(module, x)
        if not weights:
            weights.extend(torch.randn_like(y).double() for y in outputs)
        total = sum((y.double() * weight).sum() for y, weight in zip(outputs, weights, strict=True))
        inputs = (x, *module.parameters())
        gradients = torch.autograd.grad(total, inputs, materialize_grads=True)  # type: ignore[arg-type]
    return [y.detach().double() for y in outputs], [gradient.double() for gradient in gradients]


def relative_error(actual: list[Tensor], expected: list[Tensor]) -> float:
    """Compute the error of all tensors as one vector, so that rounding errors of a tiny gradient do not count."""
    actual_vector, expected_vector = (torch.cat([part.flatten() for part in parts]) for parts in (actual, expected))
    return float((actual_vector - expected_vector).norm() / expected_vector.norm())


def check(case: Case) -> bool:
    weights: list[Tensor] = []
    reference = compute(case, torch.float64, weights, by_equation=True)
    agrees = True
    for dtype, floor in FLOORS.items():
        by_equation, by_kernel = (compute(case, dtype, weights, equation) for equation in (True, False))
        line = f"{case.name:40} {str(dtype).removeprefix('torch.'):9}"
        for name, expected, equation, kernel in zip(
            ("values", "gradients"), reference, by_equation, by_kernel, strict=True
        ):
            equation_error, kernel_error = relative_error(equation, expected), relative_error(kernel, expected)
            line += f" {name} {kernel_error:.1e} (equation {equation_error:.1e})"
            if not kernel_error <= MAX_RATIO * equation_error + floor:
                line += " DISAGREES"
                agrees = False
        print(line, flush=True)
    return agrees


def main() -> int:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    hardware = torch.cuda.get_device_name() if default_device().type == "cuda" else "CPU"
    print(f"{hardware}, torch {torch.__version__}", flush=True)
    checked, failed = set(), []
    for case in cases():
        checked.add(case.kernel)
        if not check(case):
            failed.append(case.name)
    print(f"FlexAttention: {describe_shapes()}")
    unchecked = sorted(set(KERNELS) - checked - STEPS_ONLY)
    print(f"disagree: {', '.join(failed) or 'none'}; kernels without a case: {', '.join(unchecked) or 'none'}")
    return 1 if failed or unchecked else 0


if __name__ == "__main__":
    sys.exit(main())
