"""A cell over a sequence on a GPU, with one launch forwards and one backwards, and the recurrent weights in registers
(`walk.cu`).

It runs any step that `tracing` can convert to a graph, if all products read the same state and the weights fit into the
registers of the GPU. The state that products read is rounded to their dtype at every step; sums, and everything else
that a step keeps, are in float32.

It is written in CUDA C, since Triton does not control which lane holds which weight and cannot read words while other
blocks write them.
"""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from clew.core.errors import shortened
from clew.core.types import State
from clew.kernels.cells.comparing import log_once
from clew.kernels.cells.compiling import Kernels, Uncompiled, compiled, is_available
from clew.kernels.cells.derivatives import first_derivative
from clew.kernels.cells.source import Program, Read, Sizes, program
from clew.kernels.cells.tracing import Step
from clew.kernels.few_rows import PLAIN

NUMBERS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
WARPS = 8
MOST_HELD = 28
"""The maximum number of pieces of 16 weight rows that a warp keeps in registers; with more, the compiler runs out of
registers."""
MOST_ROWS = 64
"""The maximum number of rows of a group: with more, a library's products of whole batches are faster than blocks that
wait for each other."""
LEAST_STEPS = 4


class Launch(Protocol):
    """Runs a kernel of a program in a number of blocks. Tests without a GPU run it on the CPU."""

    def __call__(self, name: str, blocks: int, values: Sequence[Tensor | int]) -> None: ...


class Plan(NamedTuple):
    """How a step is run over a sequence. `fed` is the state that products read."""

    sizes: Sizes
    program: Program
    launch: Launch
    fed: int
    groups: int


def walk_persistent(step: Step, real: Tensor | None, has_library: bool = False) -> tuple[Tensor, State] | None:
    """Return y (batch, length, width) in the dtype of products, and the states after each row's last real position.

    `real` is (batch, length). Returns None if the step does not fit, its kernel cannot be compiled, or a library with
    this cell is faster.
    """
    number = number_of(step)
    sizes = None if number is None else layout(step, number)
    if number is None or sizes is None or (has_library and is_better_in_a_library(sizes)):
        return None
    keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(step))
    step = step._replace(inputs=tuple(x if x.dtype == number else x.float() for x in step.inputs))
    program = program_for(step, sizes, number, real is not None, keeps)
    kernels = kernels_for(program, 32 * sizes.warps, step.states[0].get_device())
    if kernels is None:
        return None
    try:
        return walk_with(step, real, number, sizes, program, kernels, keeps)
    except Uncompiled as why:
        log_once(logging.WARNING, f"cells run without their kernel, which failed: {shortened(str(why))}")
        return None


def tensors_of(step: Step) -> list[Tensor]:
    return [*(matrix.weight for matrix in step.matrices), *step.inputs, *step.fixed, *step.states]


def number_of(step: Step) -> torch.dtype | None:
    """Return the dtype of products; None if the kernel does not support it, or a tensor is not an ordinary tensor on
    the current GPU."""
    tensors = tensors_of(step)
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else -1
    if not step.matrices or not all(type(each) in PLAIN and each.get_device() == device for each in tensors):
        return None
    number = number_for(step.matrices[0].weight)
    return number if number in NUMBERS and is_available() else None


def number_for(tensor: Tensor) -> torch.dtype:
    """Return the dtype of products with a tensor: its own, or autocast's."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else tensor.dtype


def fits(x: Tensor, state: Tensor) -> bool:
    """Whether a cell with one product and states of this width would run. This is checked before anything is
    computed."""
    if not x.is_cuda or x.shape[1] < LEAST_STEPS or state.dim() != 2 or not is_available():
        return False
    gpu = gpu_of(x.get_device())
    return (
        gpu is not None
        and number_for(x) in NUMBERS
        and sizes_for(state.shape[1], 1, len(x), torch.bfloat16, gpu) is not None
    )


def layout(step: Step, number: torch.dtype) -> Sizes | None:
    gpu = gpu_of(step.states[0].get_device())
    batch, length = step.inputs[0].shape[:2] if step.inputs else (0, 0)
    if gpu is None or fed_state(step) is None or length < LEAST_STEPS:
        return None
    count = sum(len(matrix.weight) for matrix in step.matrices) // step.width
    return sizes_for(step.width, count, batch, number, gpu, rounds_products())


def is_better_in_a_library(sizes: Sizes) -> bool:
    """Whether cuDNN is faster, as measured on an H200 (benchmarks/cells.py): for narrow layers, and for many rows in
    float32."""
    return sizes.width < 128 or (sizes.number == 0 and sizes.rows > 16)


def rounds_products() -> bool:
    """Whether the user allows TF32 for float32 products."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # it is set for each library separately
        return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


class Gpu(NamedTuple):
    processors: int
    shared: int
    """The maximum bytes of shared memory of a block."""


@cache
def gpu_of(device: int) -> Gpu | None:
    """Return the properties of a GPU; None if its tensor cores do not support bfloat16 and TF32."""
    properties = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", 99 * 1024)
    return Gpu(properties.multi_processor_count, shared) if properties.major >= 8 else None


def sizes_for(
    width: int, num_products: int, batch: int, number: torch.dtype, gpu: Gpu, rounds: bool = False
) -> Sizes | None:
    """Find the layout with the fewest rows per group whose blocks fit on the GPU all at once; None if there is none."""
    kind = NUMBERS[number]
    chunk = 32 if kind else 16  # depth entries of one warp product
    for units in (16, 8):
        blocks = -(-width // units)
        blocks += blocks % 2 if units == 8 else 0  # reads are of 16 numbers
        ahead = -(-num_products * units // 16) * -(-blocks * units // (chunk * WARPS))
        back = -(-num_products * blocks * units // (chunk * WARPS)) * units / 16
        if not batch or max(ahead, back) > MOST_HELD:
            continue
        for rows in range(8, MOST_ROWS + 1, 8):
            shared = 8 * WARPS * rows * (16 * -(-num_products * units // 16) + 4)
            if blocks * -(-batch // rows) <= gpu.processors and shared <= gpu.shared:
                return Sizes(width, units, rows, blocks, WARPS, kind, rounds and kind == 0)
    return None


def fed_state(step: Step) -> int | None:
    """Return the state that all products read; None if they read several."""
    fed = {matrix.state for matrix in step.matrices}
    return fed.pop() if len(fed) == 1 else None


_programs: dict[Any, Program] = {}


def program_for(step: Step, sizes: Sizes, number: torch.dtype, has_mask: bool, keeps: bool) -> Program:
    inputs = tuple(Read(x.shape[2] // step.width, True, x.dtype != number) for x in step.inputs)
    fixed = tuple(Read(1, each.dim() == 2, True) for each in step.fixed)
    key = step.signature, sizes, inputs, fixed, has_mask, keeps
    if key not in _programs:
        num_products, fed = sum(len(matrix.weight) for matrix in step.matrices) // step.width, fed_state(step)
        assert fed is not None
        _programs[key] = program(
            step.graph, step.new_states, step.output, sizes, inputs, fixed, num_products, fed, has_mask, keeps
        )
    return _programs[key]


_kernels: dict[Any, Kernels | None] = {}


def kernels_for(program: Program, threads: int, device: int) -> Kernels | None:
    key = tuple(program.headers.items()), device
    if key not in _kernels:
        if torch.cuda.is_current_stream_capturing():
            return None  # nothing can be loaded during a capture
        major, minor = torch.cuda.get_device_capability(device)
        try:
            code = compiled("walk.cu", program.headers, f"sm_{major}{minor}")
            _kernels[key] = Kernels(code, ("walk_forward", "walk_backward"), threads, program.shared)
        except Uncompiled as why:
            log_once(
                logging.WARNING, f"cells run without their kernel, which could not be compiled: {shortened(str(why))}"
            )
            _kernels[key] = None
    return _kernels[key]


def aligned(tensor: Tensor) -> Tensor:
    """Return the tensor contiguous and aligned to 16 bytes."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def walk_with(
    step: Step, real: Tensor | None, number: torch.dtype, sizes: Sizes, program: Program, launch: Launch, keeps: bool
) -> tuple[Tensor, State]:
    fed = fed_state(step)
    assert fed is not None
    plan = Plan(sizes, program, launch, fed, -(-len(step.states[0]) // sizes.rows))
    weight = (
        step.matrices[0].weight if len(step.matrices) == 1 else torch.cat([matrix.weight for matrix in step.matrices])
    )
    counts = len(step.inputs), len(step.fixed)
    rest = [*step.inputs, *(each.float() for each in step.fixed), *(each.float() for each in step.states)]
    y, *states = _Walk.apply(plan, number, real, counts, keeps, weight, *rest)  # type: ignore[no-untyped-call]
    return y, step.rebuild([new.to(old.dtype) for new, old in zip(states, step.states, strict=True)])


def unwritten(shape: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    """Allocate memory filled with the UNWRITTEN pattern (all bits set)."""
    new = torch.empty(shape, dtype=dtype, device=like.device)
    new.view(torch.int32 if new.element_size() == 4 else torch.int16).fill_(-1)
    return new


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        number: torch.dtype,
        real: Tensor | None,
        counts: tuple[int, int],
        keeps: bool,
        weight: Tensor,
        *rest: Tensor,
    ) -> Any:
        sizes, program = plan.sizes, plan.program
        rest = tuple(each.contiguous() for each in rest)
        inputs, fixed, states = rest[: counts[0]], rest[counts[0] : sum(counts)], rest[sum(counts) :]
        batch, length = inputs[0].shape[:2]
        padded, width = sizes.padded, sizes.width
        weight = padded_weight(weight, sizes).to(number)
        fed = unwritten((batch, length + 1, padded), weight, number)
        fed[:, 0, width:] = 0
        fed[:, 0, :width] = states[plan.fed]
        lasts = [torch.empty_like(state) for state in states]
        values: dict[str, Any] = {"weight": aligned(weight), "fed": fed, "batch": batch, "length": length}
        values |= {f"inputs_{place}": x for place, x in enumerate(inputs)} | {
            f"given_{place}": x for place, x in enumerate(fixed)
        }
        for place, state in enumerate(states):
            values |= {f"start_{place}": state, f"last_{place}": lasts[place]}
            if keeps and place != plan.fed:
                values[f"states_{place}"] = state.new_empty(batch, length, width)
        if real is not None:
            values["mask"] = real.contiguous()
        if "outputs" in program.forward:
            values["outputs"] = weight.new_empty(batch, length, width)
        if keeps:
            values["products"] = weight.new_empty(batch, length, len(weight), padded)
            values["across"] = fed.new_empty(batch, length, program.num_across, dtype=torch.float32)
        if program.forward_pairs:
            values["sums_ahead"] = fed.new_zeros(2, program.forward_pairs, batch, sizes.blocks, 4, dtype=torch.int32)
        plan.launch("walk_forward", sizes.blocks * plan.groups, [values[name] for name in program.forward])
        y = (
            values["outputs"]
            if "outputs" in program.forward
            else fed[:, 1:, :width].clone(memory_format=torch.contiguous_format)
        )
        if keeps:
            saved = {
                name: values[name]
                for name in program.backward
                if name in values and name not in ("weight", "batch", "length")
            }
            ctx.save_for_backward(weight, *saved.values())
            ctx.names, ctx.plan, ctx.number, ctx.counts, ctx.shapes = list(saved), plan, number, counts, (batch, length)
            ctx.sides = [each.dim() for each in fixed]
        return y, *lasts

    @staticmethod
    @first_derivative
    def backward(ctx: Any, of_y: Tensor, *of_lasts: Tensor) -> Any:
        weight, *saved = ctx.saved_tensors
        plan, (batch, length) = ctx.plan, ctx.shapes
        sizes, program = plan.sizes, plan.program
        width, padded, num_products = sizes.width, sizes.padded, len(weight)
        values: dict[str, Any] = {**dict(zip(ctx.names, saved, strict=True)), "batch": batch, "length": length}
        values["weight"] = aligned(weight.permute(2, 0, 1).reshape(padded, -1))
        errors = values["errors"] = unwritten((batch, length, num_products, padded), weight, ctx.number)
        values["of_outputs"] = of_y.to(ctx.number).contiguous()
        of_states = [weight.new_empty(batch, width, dtype=torch.float32) for _ in of_lasts]
        for place, (of_last, of_start) in enumerate(zip(of_lasts, of_states, strict=True)):
            values |= {f"of_last_{place}": of_last.float().contiguous(), f"of_start_{place}": of_start}
        of_fixed = [weight.new_empty(batch, width, dtype=torch.float32) for _ in ctx.sides]
        values |= {f"of_given_{place}": each for place, each in enumerate(of_fixed)}
        own = {
            j: errors.new_empty(batch, length, width)
            for j, product in enumerate(program.shared_errors)
            if product is None
        }
        values |= {f"of_input_{j}": each for j, each in own.items()}
        if program.backward_pairs:
            values["sums_back"] = errors.new_zeros(2, program.backward_pairs, batch, sizes.blocks, 4, dtype=torch.int32)
        plan.launch("walk_backward", sizes.blocks * plan.groups, [values[name] for name in program.backward])
        of_weight = None
        if ctx.needs_input_grad[5]:
            before = values["fed"][:, :length].reshape(batch * length, padded)
            product = errors.view(batch * length, -1).mT @ before
            of_weight = product.view(num_products, padded, padded)[:, :width, :width].reshape(
                num_products * width, width
            )
        of_inputs, j = [], 0
        for place in range(ctx.counts[0]):
            blocks = values[f"inputs_{place}"].shape[2] // width
            products = program.shared_errors[j : j + blocks]
            of_inputs.append(of_input(errors, own, products, j, width) if ctx.needs_input_grad[6 + place] else None)
            j += blocks
        sums = [each if dim == 2 else each.sum(0) for each, dim in zip(of_fixed, ctx.sides, strict=True)]
        return None, None, None, None, None, of_weight, *of_inputs, *sums, *of_states


def of_input(errors: Tensor, own: dict[int, Tensor], products: Sequence[int | None], first: int, width: int) -> Tensor:
    """Return the error of an input from the errors of its blocks. If the blocks belong to consecutive products, it is a
    slice of the products' errors."""
    if products[0] is not None and list(products) == list(range(products[0], products[0] + len(products))):
        return errors[:, :, products[0] : products[0] + len(products), :width].flatten(2)
    parts = [
        own[first + place] if product is None else errors[:, :, product, :width]
        for place, product in enumerate(products)
    ]
    return torch.cat(parts, -1)


def padded_weight(weight: Tensor, sizes: Sizes) -> Tensor:
    """Reshape (n * width, width) to (n, padded, padded), padded with zeros."""
    whole = weight.view(-1, sizes.width, sizes.width)
    rest = sizes.padded - sizes.width
    return torch.nn.functional.pad(whole, (0, rest, 0, rest)) if rest else whole
