"""Forward and backward passes as CUDA graphs, so that a small model does not wait for its kernels to be launched one by
one.

A graph is kept for each shape that a batch and a carried state have. The first batch of a shape runs eagerly, which
compiles what there is to compile; at the second one the pass is captured. A pass that cannot be captured (it asks the
host for a value) runs eagerly, and `--debug` says why. Random numbers are those of an eager pass: a replay reads the
seed that is set at the time.
"""

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.batches import map_batch
from clew.core.state import map_tree
from clew.core.types import State
from clew.kernels.capture import capture
from clew.training.feeding import is_out_of_memory

Pass = Callable[[Any, State, dict[str, Tensor]], tuple[dict[str, Tensor], State]]
"""(batch, carried state, count of each term) -> (sum of each term, state to carry). Adds to the gradients of the
parameters."""

MOST_GRAPHS = 32
"""Shapes that are captured; batches of further shapes run eagerly."""
MOST_FAILURES = 3
"""Shapes whose capture fails before it is no longer tried."""
READ_BY_THE_LOOP = ("fresh", "rate", "num_tokens")
"""Fields of a batch that no task reads."""

log = logging.getLogger("clew.training")


class Captured(NamedTuple):
    """A pass of one shape: `inputs` are copied into before a replay, `sums` and `state` read after it."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    sums: dict[str, Tensor]
    state: State
    trained: list[nn.Parameter]


class CapturedPasses:
    """A pass that is captured for the shapes that recur. All graphs share their memory, and leave the gradients in the
    same tensors: those that the first one made, into which the others copy theirs.

    A replay runs no Python: a task of clew's keeps nothing on itself between two batches, so that none is needed.
    Modules passed to `fit` may, and are not captured.
    """

    def __init__(self, run: Pass, task: nn.Module):
        self.run, self.task = run, task
        self.parameters = [p for p in task.parameters() if p.requires_grad]
        self.gradients: dict[nn.Parameter, Tensor] = {}
        self.forget()

    def forget(self) -> None:
        """Frees all graphs, and their memory."""
        self.met: set[Hashable] = set()
        self.captured: dict[Hashable, Captured] = {}
        self.failures = 0
        self.gradients.clear()
        self.pool: Any = None

    def __call__(
        self, seed: Callable[[], None], batch: Any, state: State, counts: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], State]:
        """The pass of a batch on the device, `seed` having set the generators. The parameters have no gradients
        before."""
        key = self.key_of(batch, state, counts)
        captured = self.captured.get(key)
        if captured is None and key in self.met and len(self.captured) < MOST_GRAPHS and self.failures < MOST_FAILURES:
            captured = self.capture(key, seed, batch, state, counts)
        if captured is None:
            seed()
            found = self.run(batch, state, counts)
            if key is not None:
                self.met.add(key)
            return found
        seed()
        torch._foreach_copy_(captured.inputs, tensors_of(batch, state, counts), non_blocking=True)
        captured.graph.replay()
        for parameter in captured.trained:
            parameter.grad = self.gradients[parameter]
        return map_batch(torch.clone, captured.sums), map_tree(torch.clone, captured.state)

    def key_of(self, batch: Any, state: State, counts: dict[str, Tensor]) -> Hashable:
        """All that a graph depends on besides the numbers in tensors; None where that cannot be compared."""
        key = (self.task.training, torch.get_float32_matmul_precision(), *map(described, (batch, state, counts)))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def capture(
        self, key: Hashable, seed: Callable[[], None], batch: Any, state: State, counts: dict[str, Tensor]
    ) -> Captured | None:
        inputs: list[Tensor] = []

        def kept(tensor: Tensor) -> Tensor:
            inputs.append(tensor.clone())
            return inputs[-1]

        batch, state, counts = map_batch(kept, batch), map_tree(kept, state), map_batch(kept, counts)
        passed: list[tuple[dict[str, Tensor], State]] = []
        gradients: dict[nn.Parameter, Tensor] = {}

        def run() -> None:
            passed.append(self.run(batch, state, counts))
            gradients.update((p, p.grad) for p in self.parameters if p.grad is not None)
            again = [parameter for parameter in gradients if parameter in self.gradients]
            if again:
                torch._foreach_copy_(
                    [self.gradients[parameter] for parameter in again], [gradients[parameter] for parameter in again]
                )

        self.pool = self.pool or torch.cuda.graph_pool_handle()
        seed()
        try:
            graph = capture(run, self.pool)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            log.debug("a training step runs eagerly: %s", str(error).split("\n")[0])
            torch.cuda.synchronize()
            self.failures += 1
            return None
        finally:
            for parameter in self.parameters:
                parameter.grad = None
        ((sums, carried),) = passed
        self.gradients = {**gradients, **self.gradients}
        self.captured[key] = Captured(graph, inputs, sums, carried, list(gradients))
        return self.captured[key]


def tensors_of(batch: Any, state: State, counts: dict[str, Tensor]) -> list[Tensor]:
    """In the order in which a capture meets them."""
    found: list[Tensor] = []
    map_batch(found.append, batch)
    map_tree(found.append, state)
    map_batch(found.append, counts)
    return found


def described(tree: Any) -> Hashable:
    """Shapes and types in place of tensors, and all else as it is."""
    if isinstance(tree, Tensor):
        return (tuple(tree.shape), tree.dtype, tree.requires_grad)
    if isinstance(tree, dict):
        return tuple((name, described(part)) for name, part in tree.items())
    if isinstance(tree, (tuple, list)):
        names: Iterable[Any] = getattr(tree, "_fields", range(len(tree)))
        return (
            type(tree),
            *(described(part) for name, part in zip(names, tree, strict=True) if name not in READ_BY_THE_LOOP),
        )
    return tree  # type: ignore[no-any-return]
