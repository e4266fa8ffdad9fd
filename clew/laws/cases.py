"""One trial of a law: the module in float64, random inputs from a seed, and comparisons that report where two values
differ.

This file knows no law. The module is anything that is called like a sequence layer: `(inputs, mask, state) -> (y,
state)`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from clew.core.types import State

TOLERANCE = 1e-8
PLACES = ("row", "position", "feature")


class Sizes(NamedTuple):
    """The sizes of a trial; the seed determines weights, inputs, cuts and lengths."""

    batch: int
    length: int
    input_dim: int
    dim: int
    seed: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in zip(self._fields, self, strict=True))


Build = Callable[[Sizes], Any]
Law = Callable[[Build, Sizes], None]


class Broken(Exception):
    """A violated law: its name, the observation, and the sizes."""

    def __init__(self, law: str, sentence: str, sizes: Sizes):
        super().__init__(f"{law}: {sentence} [{sizes}]")
        self.law = law
        self.sentence = sentence
        self.sizes = sizes


class Chunk(NamedTuple):
    """A chunk of input. The real positions of a row come first."""

    inputs: Tensor
    mask: Tensor | None = None

    @property
    def lengths(self) -> list[int]:
        if self.mask is None:
            return [self.inputs.shape[1]] * len(self.inputs)
        return [int(n) for n in (self.mask > 0).sum(1)]


class Reading(NamedTuple):
    """The outputs at each row's real positions, over all chunks, and the final state."""

    rows: list[Tensor]  # each (real positions, dim)
    state: State


class Case:
    """A law at given sizes: the built module, and the shared ways to draw, read and compare."""

    def __init__(self, law: str, build: Build, sizes: Sizes):
        self.law = law
        self.build = build
        self.sizes = sizes
        self.generator = torch.Generator().manual_seed(sizes.seed)
        self.module = self.fresh(sizes.seed)

    def fail(self, sentence: str) -> NoReturn:
        raise Broken(self.law, sentence, self.sizes)

    def fresh(self, seed: int) -> Any:
        """Return a new module in float64, with noise in all weights: initial zeros and ones could hide an effect."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module = self.build(self.sizes)
            if not isinstance(module, nn.Module):
                self.fail(f"the built object must be a torch.nn.Module, not {type(module).__name__}")
            module = module.double()
            with torch.no_grad():
                for parameter in module.parameters():
                    noise = torch.rand_like(parameter) - 0.5
                    parameter.copy_(torch.where(parameter == 0, 0.4 * noise, parameter * (1 + 0.5 * noise)))
        return module

    def settle(self) -> "Case":
        """Leave the module in training mode if two calls agree, else in evaluation mode: dropout must be off, but a
        batch norm must stay active."""
        x, outputs = self.draw(), []
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for seed in (1, 2):
                torch.default_generator.manual_seed(seed)
                outputs.append(self.module(x)[0])
        if not torch.equal(outputs[0], outputs[1]):
            self.module.eval()
        return self

    @property
    def causal(self) -> bool:
        return bool(self.module.causal)

    @property
    def is_body(self) -> bool:
        """Whether the module is a body, which has its own kind of input, or a layer, which reads vectors."""
        return hasattr(self.module, "vocabulary")

    @property
    def reads_tokens(self) -> bool:
        return self.is_body and self.module.vocabulary > 0

    def randn(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=self.generator)

    def randint(self, low: int, high: int) -> int:
        """Return a random integer from low to high, both included."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def draw(self, batch: int | None = None, length: int | None = None) -> Tensor:
        """Return random inputs (batch, length, input_dim); for a body, tokens (batch, length) or vectors (batch,
        length, width)."""
        batch = self.sizes.batch if batch is None else batch
        length = self.sizes.length if length is None else length
        if self.reads_tokens:
            return torch.randint(self.module.vocabulary, (batch, length), generator=self.generator)
        return self.randn(batch, length, self.module.embedding.width if self.is_body else self.sizes.input_dim)

    def garbage(self, like: Tensor) -> Tensor:
        """Return garbage for positions that must not be read."""
        if self.reads_tokens:
            return torch.randint(self.module.vocabulary, like.shape, generator=self.generator)
        return 10 * self.randn(*like.shape)

    def start(self, batch: int, capacity: int | None = None) -> State:
        """Return the initial state."""
        if self.is_body:
            return self.module.initial_state(batch, capacity=capacity)
        return self.module.initial_state(batch, capacity=capacity, like=self.randn(1))

    def cut(self, x: Tensor, counts: Sequence[Sequence[int]]) -> list[Chunk]:
        """Cut `x` into chunks: chunk k has the next `counts[k][row]` positions of each row, followed by garbage."""
        starts = torch.zeros(len(x), dtype=torch.long)
        chunks = []
        for count in counts:
            num_taken = torch.tensor(count)
            longest = int(num_taken.max()) if len(num_taken) else 0
            steps = torch.arange(longest)
            mask = steps < num_taken[:, None]
            index = torch.where(mask, starts[:, None] + steps, 0)
            rows = torch.arange(len(x))[:, None]
            piece = x[rows, index] if longest else x[:, :0]
            chunks.append(Chunk(self.hide(piece, mask), None if bool(mask.all()) else mask))
            starts = starts + num_taken
        return chunks

    def hide(self, x: Tensor, mask: Tensor) -> Tensor:
        """Replace the padding of `x` by garbage."""
        return torch.where((mask > 0).view(*mask.shape, *[1] * (x.dim() - 2)), x, self.garbage(x))

    def cuts(self, batch: int, length: int) -> dict[str, list[list[int]]]:
        """Return ways to cut rows of `length` into chunks: single steps, two halves, and ragged chunks with different
        cuts in each row."""
        middle = self.randint(0, length)
        first = [self.randint(0, length) for _ in range(batch)]
        second = [self.randint(0, length - count) for count in first]
        rest = [length - a - b for a, b in zip(first, second, strict=True)]
        return {
            "step by step": [[1] * batch] * length,
            f"in chunks of {middle} and {length - middle}": [[middle] * batch, [length - middle] * batch],
            f"in ragged chunks of {first}, {second} and {rest}": [first, second, rest],
        }

    def read(self, *chunks: Chunk, state: State = None, module: Any = None) -> Reading:
        """Run the module over the chunks in order, passing the state on."""
        module = self.module if module is None else module
        rows: list[list[Tensor]] = [[] for _ in range(len(chunks[0].inputs))]
        for inputs, mask in chunks:
            y, state = module(inputs, mask, state)
            for row, (out, real) in enumerate(zip(y, Chunk(inputs, mask).lengths, strict=True)):
                rows[row].append(out[:real])
        return Reading([torch.cat(row) for row in rows], state)

    def gradients(self, rows: Sequence[Tensor], weights: Sequence[Tensor], x: Tensor) -> dict[str, Tensor]:
        """Return the gradients of sum(weights * rows), by name, with respect to every parameter and to x (unless x has
        tokens). A gradient without a path is zero."""
        tensors = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        if x.requires_grad:
            tensors["x"] = x
        total = torch.stack([(row * weight).sum() for row, weight in zip(rows, weights, strict=True)]).sum()
        if not tensors or not total.requires_grad:
            return {}
        gradients = torch.autograd.grad(total, list(tensors.values()), allow_unused=True, retain_graph=True)
        return {
            n: torch.zeros_like(v) if g is None else g for (n, v), g in zip(tensors.items(), gradients, strict=True)
        }

    def same(
        self, what: str, expected: Tensor, actual: Tensor, axes: Sequence[str] = PLACES, near: float = TOLERANCE
    ) -> None:
        """Raise Broken if the two tensors differ, with the largest difference and its index."""
        if expected.shape != actual.shape:
            self.fail(f"{what}: the shapes are {tuple(expected.shape)} and {tuple(actual.shape)}")
        if not expected.numel():
            return
        expected, actual = expected.detach().double(), actual.detach().double()
        for value in (expected, actual):
            if not bool(value.isfinite().all()):
                self.fail(
                    f"{what}: a value is not finite at"
                    f" {_place(int(value.isfinite().logical_not().int().argmax()), value, axes)}"
                )
        difference = (expected - actual).abs()
        if bool((difference > near * expected.abs().clamp(min=1.0)).any()):
            worst = int(difference.argmax())
            left, right = float(expected.flatten()[worst]), float(actual.flatten()[worst])
            self.fail(
                f"{what}: differs by {abs(left - right):.3g} ({left:.6g} against {right:.6g}) at"
                f" {_place(worst, expected, axes)}"
            )

    def same_rows(self, what: str, expected: Sequence[Tensor], actual: Sequence[Tensor]) -> None:
        for row, (left, right) in enumerate(zip(expected, actual, strict=True)):
            self.same(f"{what}, row {row}", left, right, axes=("position", "feature"))

    def same_gradients(self, what: str, expected: dict[str, Tensor], actual: dict[str, Tensor]) -> None:
        for name, value in expected.items():
            axes = PLACES if name == "x" else ("entry",)
            self.same(f"{what}, gradient of {name}", value, actual[name], axes=axes, near=100 * TOLERANCE)

    def inputs_with_gradient(self, *shape: int) -> Tensor:
        x = self.draw(*shape)
        return x.requires_grad_() if x.is_floating_point() else x


def _place(flat: int, value: Tensor, axes: Sequence[str]) -> str:
    index: list[int] = []
    for size in reversed(value.shape):
        index.insert(0, flat % size)
        flat //= size
    names = list(axes) if len(axes) >= len(index) else [*axes, *["index"] * len(index)]
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=False)) or "its only entry"
