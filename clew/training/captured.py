"""Forward and backward passes as CUDA graphs, so that the speed of a small model is not limited by kernel launches.

There is one graph for each shape of a batch and its carried state. The first batch of a shape runs eagerly, which also
compiles kernels; at the second batch the pass is captured. A pass that cannot be captured, because it reads a value on
the host, runs eagerly, and `--debug` shows why. Random numbers are those of an eager pass: a replay reads the current
seed.
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
"""(batch, carried state, count of each term) -> (sum of each term, state to carry). It adds to the parameters'
gradients."""

MOST_GRAPHS = 32
"""The largest number of captured shapes; batches of other shapes run eagerly."""
MOST_FAILURES = 3
"""After this number of failed captures, no shape is captured any more."""
READ_BY_THE_LOOP = ("fresh", "rate", "num_tokens")
"""Fields of a batch that only the training loop reads."""

log = logging.getLogger("clew.training")


class CapturedPass(NamedTuple):
    """A captured pass of one shape. Before a replay, new values are copied to `inputs`; after it, `sums` and `state`
    have the results."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    sums: dict[str, Tensor]
    state: State
    trained: list[nn.Parameter]


class CapturedPasses:
    """A pass that is captured for recurring shapes. All graphs share one memory pool. They return gradients in the same
    tensors: those of the first graph, to which the others copy theirs.

    A replay runs no Python. Tasks of clew allow this, as they store nothing on themselves between two batches. Modules
    passed to `fit` may do so, and are not captured.
    """

    def __init__(self, run: Pass, task: nn.Module):
        self.run, self.task = run, task
        self.parameters = [p for p in task.parameters() if p.requires_grad]
        self.gradients: dict[nn.Parameter, Tensor] = {}
        self.forget()

    def forget(self) -> None:
        """Free all graphs and their memory."""
        self.seen: set[Hashable] = set()
        self.captured: dict[Hashable, CapturedPass] = {}
        self.failures = 0
        self.gradients.clear()
        self.pool: Any = None

    def __call__(
        self, seed: Callable[[], None], batch: Any, state: State, counts: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], State]:
        """Run the pass of a batch on the device, after `seed` has set the random generators. The parameters must not
        have gradients."""
        key = self.key_of(batch, state, counts)
        captured = self.captured.get(key)
        if captured is None and key in self.seen and len(self.captured) < MOST_GRAPHS and self.failures < MOST_FAILURES:
            captured = self.capture(key, seed, batch, state, counts)
        if captured is None:
            seed()
            result = self.run(batch, state, counts)
            if key is not None:
                self.seen.add(key)
            return result
        seed()
        torch._foreach_copy_(captured.inputs, tensors_of(batch, state, counts), non_blocking=True)
        captured.graph.replay()
        for parameter in captured.trained:
            parameter.grad = self.gradients[parameter]
        return map_batch(torch.clone, captured.sums), map_tree(torch.clone, captured.state)

    def key_of(self, batch: Any, state: State, counts: dict[str, Tensor]) -> Hashable:
        """Return everything that a graph depends on except the values of tensors; None if it is not hashable."""
        key = (self.task.training, torch.get_float32_matmul_precision(), *map(signature, (batch, state, counts)))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def capture(
        self, key: Hashable, seed: Callable[[], None], batch: Any, state: State, counts: dict[str, Tensor]
    ) -> CapturedPass | None:
        inputs: list[Tensor] = []

        def clone_input(tensor: Tensor) -> Tensor:
            inputs.append(tensor.clone())
            return inputs[-1]

        batch, state, counts = (
            map_batch(clone_input, batch),
            map_tree(clone_input, state),
            map_batch(clone_input, counts),
        )
        results: list[tuple[dict[str, Tensor], State]] = []
        gradients: dict[nn.Parameter, Tensor] = {}

        def run() -> None:
            results.append(self.run(batch, state, counts))
            gradients.update((p, p.grad) for p in self.parameters if p.grad is not None)
            shared = [parameter for parameter in gradients if parameter in self.gradients]
            if shared:
                torch._foreach_copy_(
                    [self.gradients[parameter] for parameter in shared], [gradients[parameter] for parameter in shared]
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
        ((sums, carried),) = results
        self.gradients = {**gradients, **self.gradients}
        self.captured[key] = CapturedPass(graph, inputs, sums, carried, list(gradients))
        return self.captured[key]


def tensors_of(batch: Any, state: State, counts: dict[str, Tensor]) -> list[Tensor]:
    """Return all tensors, in the order in which a capture clones them."""
    tensors: list[Tensor] = []
    map_batch(tensors.append, batch)
    map_tree(tensors.append, state)
    map_batch(tensors.append, counts)
    return tensors


def signature(tree: Any) -> Hashable:
    """Replace tensors by their shapes and dtypes, and leave all other values as they are."""
    if isinstance(tree, Tensor):
        return (tuple(tree.shape), tree.dtype, tree.requires_grad)
    if isinstance(tree, dict):
        return tuple((name, signature(part)) for name, part in tree.items())
    if isinstance(tree, (tuple, list)):
        names: Iterable[Any] = getattr(tree, "_fields", range(len(tree)))
        return (
            type(tree),
            *(signature(part) for name, part in zip(names, tree, strict=True) if name not in READ_BY_THE_LOOP),
        )
    return tree  # type: ignore[no-any-return]
