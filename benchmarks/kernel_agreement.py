"""`python -m benchmarks.kernel_agreement`: every kernel of clew.kernels against its equation, on the device that is
there.

Values and gradients of layers. The reference is the equation in float64. A kernel may differ from it by a few times
what the equation itself differs in the same precision: float32, and bfloat16 under autocast. A relative error is |found
- expected| / |expected| of all outputs, or of all gradients. Exit status 1 where one is larger, or where a kernel has
no case.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.side_by_side import device
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
"""Errors that are never counted: those of sums in another order."""
TIMES = 3.0
"""How many times the equation's own error a kernel's may be."""
BATCH, DIM = 2, 64
STEPS_ONLY = {"decode_attention", "memory_attention", "rotary"}
"""Kernels of one decoding step have no gradients; `tests/kernels` compares their values."""


class Case(NamedTuple):
    """`call(module, x)` gives the outputs that are compared."""

    name: str
    kernel: str
    module: nn.Module
    x: Tensor
    call: Callable[[Any, Tensor], tuple[Tensor, ...]]


class Output(nn.Module):
    """A vocabulary's weights and the loss over it."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.loss = CrossEntropy(0.1)
        self.output = nn.Linear(DIM, vocabulary)


def ragged(length: int) -> Tensor:
    return torch.arange(length, device=device()) < torch.tensor([[length], [length - length // 3]], device=device())


def documents(length: int, size: int) -> Tensor:
    return ragged(length) * (1 + torch.arange(length, device=device()) // size)


def sequence(name: str, kernel: str, layer: nn.Module, length: int, mask: Tensor | None = None) -> Case:
    shown = torch.ones(BATCH, length, 1, device=device()) if mask is None else (mask > 0)[..., None]
    return Case(name, kernel, layer, torch.randn(BATCH, length, DIM), lambda layer, x: (layer(x, mask)[0] * shown,))


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
    """At least one for each kernel, and one for each way that attention goes."""
    for name, cell in {
        "elman_tanh": CELLS["elman"](DIM, DIM),
        "elman_relu": CELLS["elman"](DIM, DIM, nonlinearity="relu"),
        "lstm": CELLS["lstm"](DIM, DIM),
        "projected_lstm": CELLS["projected_lstm"](DIM, DIM // 2, hidden_dim=DIM),
        "gru": CELLS["gru"](DIM, DIM),
    }.items():
        yield sequence(name, name, Recurrent(cell), 24, ragged(24))
    for name in ("peephole_lstm", "layernorm_lstm", "coupled_lstm"):  # on a CPU a walk of torch operations, or the loop
        yield sequence(name, "walk_on_gpu", Recurrent(CELLS[name](DIM, DIM)), 24, ragged(24))
    yield Case(
        "grid_lstm",
        "grid_lstm",
        GridLSTM(8, 16, directions=4),
        torch.randn(BATCH, 5, 6, 8),
        lambda layer, x: (layer(x)[0],),
    )
    targets = torch.randint(1, 500, (BATCH, 40), device=device())
    yield Case(
        "cross_entropy",
        "cross_entropy",
        Output(500),
        torch.randn(BATCH, 40, DIM),
        lambda m, x: tuple(costs(m, x, targets)),
    )
    labels = targets[:, :8] % 9 + 1
    yield Case(
        "ctc", "ctc", CTC(), torch.randn(BATCH, 40, 10), lambda ctc, x: (ctc.log_likelihood(x, labels, ragged(40)),)
    )
    memory = torch.randn(BATCH, 50, DIM, device=device())
    yield Case(
        "attention, over a memory",
        "dot_attention",
        CrossAttention(DIM, 4),
        torch.randn(BATCH, 20, DIM),
        lambda m, x: over(m, x, memory),
    )
    long = 4096 if device().type == "cuda" else 512
    yield attention("causal", long)
    yield attention("causal, ragged", 100, ragged(100))
    yield attention("causal, ragged, grouped", 100, ragged(100), num_kv_heads=2)
    yield attention("both sides, ragged", 100, ragged(100), causal=False)
    yield attention("both sides, ragged, grouped", 99, ragged(99), causal=False, num_kv_heads=2)
    yield attention("heads of 20, ragged", 75, ragged(75), causal=False, head_dim=20)
    yield attention("ALiBi", long, position="alibi")
    yield attention("ALiBi, ragged, grouped", 300, ragged(300), position="alibi", num_kv_heads=1)
    yield attention("ALiBi, short", 60, ragged(60), position="alibi")
    # Of lengths up to 512 in the same number of blocks, so that FlexAttention compiles little.
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


def costs(module: Output, x: Tensor, targets: Tensor) -> Iterator[Tensor]:
    for cost in module.loss(x, module.output.weight, module.output.bias, targets):
        if isinstance(cost, Tensor) and cost.requires_grad:
            yield cost


def over(layer: CrossAttention, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    memory = memory.to(x.dtype)
    return (layer(x, None, layer.initial_state(len(x), Memory(memory, ragged(memory.shape[1])), like=x))[0],)


def measure(case: Case, dtype: torch.dtype, weights: list[Tensor], written: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs, and gradients of the input and the parameters, in float64."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    module = copy.deepcopy(case.module).to(device(), wide)
    x = case.x.to(device(), wide).requires_grad_()
    halves = torch.autocast(device().type, dtype) if dtype == torch.bfloat16 else nullcontext()
    with only_equations() if written else nullcontext():
        with halves:
            outputs = case.call(module, x)
        if not weights:
            weights.extend(torch.randn_like(y).double() for y in outputs)
        total = sum((y.double() * weight).sum() for y, weight in zip(outputs, weights, strict=True))
        gradients = torch.autograd.grad(total, (x, *module.parameters()), materialize_grads=True)  # type: ignore[arg-type]
    return [y.detach().double() for y in outputs], [gradient.double() for gradient in gradients]


def error(found: list[Tensor], expected: list[Tensor]) -> float:
    """Of all of them as one vector: a gradient that is nothing but rounding beside the others' does not count."""
    found_all, expected_all = (torch.cat([part.flatten() for part in parts]) for parts in (found, expected))
    return float((found_all - expected_all).norm() / expected_all.norm())


def check(case: Case) -> bool:
    weights: list[Tensor] = []
    reference = measure(case, torch.float64, weights, written=True)
    agrees = True
    for dtype, floor in FLOORS.items():
        written, fast = (measure(case, dtype, weights, written) for written in (True, False))
        line = f"{case.name:40} {str(dtype).removeprefix('torch.'):9}"
        for what, expected, equation, kernel in zip(("values", "gradients"), reference, written, fast, strict=True):
            own, found = error(equation, expected), error(kernel, expected)
            line += f" {what} {found:.1e} (equation {own:.1e})"
            if not found <= TIMES * own + floor:
                line += " DISAGREES"
                agrees = False
        print(line, flush=True)
    return agrees


def main() -> int:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    where = torch.cuda.get_device_name() if device().type == "cuda" else "CPU"
    print(f"{where}, torch {torch.__version__}", flush=True)
    checked, wrong = set(), []
    for case in cases():
        checked.add(case.kernel)
        if not check(case):
            wrong.append(case.name)
    print(f"FlexAttention: {describe_shapes()}")
    unchecked = sorted(set(KERNELS) - checked - STEPS_ONLY)
    print(f"wrong: {', '.join(wrong) or 'none'}; kernels without a case: {', '.join(unchecked) or 'none'}")
    return 1 if wrong or unchecked else 0


if __name__ == "__main__":
    sys.exit(main())
