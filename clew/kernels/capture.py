"""CUDA graphs: the kernels of a function, noted once and launched together again and again. Knows neither steps nor models."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

try:
    from triton.errors import TritonError
except ImportError:  # a build of torch for the CPU comes without it
    TritonError = RuntimeError

Made = TypeVar("Made", bound=Callable[..., Any])
FAILURES = (RuntimeError, ValueError, TritonError)
"""What a capture raises where shapes change, the host is asked, or a kernel cannot be compiled."""

_holding: ContextVar[list[Any] | None] = ContextVar("holding", default=None)


def capture(function: Callable[[], object], pool: Any = None) -> torch.cuda.CUDAGraph:
    """A graph of what `function` launches. Nothing runs: whatever compiles or allocates for good has to have run once before.

    Graphs that are never replayed at the same time may share a `pool` of memory (`torch.cuda.graph_pool_handle`); what one of them leaves
    there is lost when another is replayed, unless a tensor still refers to it.
    """
    graph = torch.cuda.CUDAGraph()
    held: list[Any] = []
    token = _holding.set(held)
    try:
        # thread_local: another thread may pin memory meanwhile.
        with own_workspaces(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            function()
    except BaseException:
        end_capture()
        raise
    finally:
        _holding.reset(token)
    graph.held = held  # type: ignore[attr-defined]  # they live as long as the graph that reads them
    return graph


def held_by_graphs(function: Made) -> Made:
    """A function that keeps what it made, for a while, and gives the same again: a graph holds on to what it took from there."""

    @wraps(function)
    def get(*given: Any, **options: Any) -> Any:
        found = function(*given, **options)
        if (held := _holding.get()) is not None:
            held.append(found)
        return found

    return get  # type: ignore[return-value]


def end_capture() -> None:
    """After a capture that failed torch's generators still wait for its end, and refuse to draw numbers; one that succeeds ends it."""
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        torch.zeros(1, device="cuda")


@contextmanager
def own_workspaces() -> Iterator[None]:
    """Within this context cuBLAS allocates its workspaces anew, so that a graph finds its own in its own pool.

    torch keeps one for each stream, and all captures share a stream: a graph would write into the pool of the first one, which is freed
    with that, or when `torch.compile` clears workspaces for graphs of its own.
    """
    torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined, unused-ignore]
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined, unused-ignore]
