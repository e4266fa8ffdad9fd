"""CUDA graphs: capture the kernels of a function once and replay them. This file knows neither steps nor models."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

try:
    from triton.errors import TritonError
except ImportError:  # CPU builds of torch come without it
    TritonError = RuntimeError

Made = TypeVar("Made", bound=Callable[..., Any])
FAILURES = (RuntimeError, ValueError, TritonError)
"""The errors of a capture if shapes change, the host reads a tensor, or a kernel cannot be compiled."""

_holding: ContextVar[list[Any] | None] = ContextVar("holding", default=None)


def capture(function: Callable[[], object], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Capture the launches of `function` as a graph. Nothing is executed, so compilation and permanent allocations must
    be done before.

    Graphs that are never replayed at the same time may share a `pool` of memory (`torch.cuda.graph_pool_handle`).
    Replaying one of them overwrites the results of another, except those that a tensor still refers to.
    """
    graph = torch.cuda.CUDAGraph()
    values: list[Any] = []
    token = _holding.set(values)
    try:
        # thread_local: another thread may pin memory meanwhile.
        with own_workspaces(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            function()
    except BaseException:
        end_capture()
        raise
    finally:
        _holding.reset(token)
    graph.values = values  # type: ignore[attr-defined]  # keep them alive as long as the graph that reads them
    return graph


def held_by_graphs(function: Made) -> Made:
    """Decorate a caching function: a graph keeps the cached values that were used in its capture alive, even if the
    cache drops them."""

    @wraps(function)
    def get(*args: Any, **options: Any) -> Any:
        value = function(*args, **options)
        if (values := _holding.get()) is not None:
            values.append(value)
        return value

    return get  # type: ignore[return-value]


def end_capture() -> None:
    """Clean up after a failed capture: torch's generators refuse to draw numbers until a capture has succeeded, so
    capture a trivial one."""
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        torch.zeros(1, device="cuda")


@contextmanager
def own_workspaces() -> Iterator[None]:
    """Make cuBLAS allocate new workspaces within the context, so that a graph has its own workspace in its own pool.

    torch keeps one workspace per stream, and all captures share a stream. So a graph would write into the pool of the
    first graph, which is freed with that graph, or when `torch.compile` clears workspaces for its own graphs.
    """
    torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined, unused-ignore]
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined, unused-ignore]
