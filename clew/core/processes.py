"""Communication between the processes of a training run; there is only one unless a process group is running.

torchrun starts the processes and sets their ranks in environment variables; `process_group` joins them.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from clew.core.batches import cut_rows, num_rows, rows_of
from clew.core.errors import UserError
from clew.core.state import map_tree
from clew.core.types import State
from clew.core.wording import argument

T = TypeVar("T")

TIMEOUT = "CLEW_TIMEOUT"
"""The environment variable with the seconds after which a process stops waiting for another."""

LOST = ("gloo", "nccl", "connection", "store", "timed out", "timeout", "peer")
"""Words in torch's errors when a process waits for another that does not answer."""


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    return dist.get_world_size() if is_distributed() else 1


def is_first() -> bool:
    """Whether this process is the one that writes and reports; also valid before and after the group exists."""
    return int(os.environ.get("RANK", 0)) == 0


def local_rank() -> int:
    """Return the number of this process on its host, which is also that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", 0))


def is_restart() -> bool:
    """Whether torchrun has restarted the processes after one died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """Join the processes that torchrun started, for this context; do nothing if there is only one.

    After an error the group is not destroyed, since that could wait for ever for a process that died.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) <= 1 or is_distributed():
        yield
        return
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        if local_rank() >= torch.cuda.device_count():
            raise UserError(
                f"process {local_rank()} of this host has no GPU of its own: there are {torch.cuda.device_count()};"
                " start at most that many with --nproc-per-node, or set device=cpu"
            )
        torch.cuda.set_device(local_rank())
    timeout = timedelta(seconds=_timeout())
    try:
        store, number, count = next(iter(rendezvous("env://", timeout=timeout)))
        # Restarted processes meet in the same store, and must not find the addresses of those that died.
        store = PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        # Tried: gloo on one host. Not yet: NCCL, and several hosts.
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=timeout)
        yield
    except RuntimeError as error:
        if not any(sign in str(error).lower() for sign in LOST):
            raise
        raise UserError(
            f"process {os.environ.get('RANK')} lost another process, which died or cannot be reached"
            f" ({str(error).splitlines()[0][:120]}); torchrun says which; continue with {argument('resume', True)}, or"
            " let torchrun restart them with --max-restarts"
        ) from error
    leave_process_group()


def leave_process_group() -> None:
    """Destroy the process group, once nothing else holds it.

    DDP's Reducer is part of a reference cycle. One that outlives the group joins gloo's threads while it holds the
    interpreter's lock, for which they may wait; threads that are still there when the interpreter ends abort the
    process.
    """
    gc.collect()
    dist.destroy_process_group()


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum of every process's value, on each of them."""
    if is_distributed():
        value = value.clone()
        dist.all_reduce(value)
    return value


def rows_of_process(batch: T, parts: int = 1, part: int = 0) -> tuple[T, bool]:
    """Return a part of this process's rows of a batch, and whether there are any.

    Every process must run the model equally often, since sharded layers gather their parameters in every forward pass.
    So a process without rows gets the first row of the batch, which must then have weight 0.
    """
    share = cut_rows(cut_rows(batch, world_size())[rank()], parts)[part]
    return (share, True) if num_rows(share) else (rows_of(batch, slice(0, 1)), False)


def first_alone(do: Callable[[], T]) -> T:
    """Call `do` on the first process, and then on the others, which find what it left on disk.

    If it fails on the first, the others fail too instead of waiting.
    """
    result = _on_first(do)
    return cast(T, result) if rank() == 0 else do()


def from_first(do: Callable[[], str]) -> str:
    """Call `do` on the first process only, and return its result on every process."""
    text = _on_first(do) or ""
    if not is_distributed():
        return text
    content = torch.tensor(list(text.encode()), dtype=torch.uint8) if rank() == 0 else torch.zeros(0, dtype=torch.uint8)
    size = torch.tensor(len(content))
    dist.broadcast(size, 0)
    if rank() != 0:
        content = torch.zeros(int(size), dtype=torch.uint8)
    dist.broadcast(content, 0)
    return bytes(content.tolist()).decode()


def from_all(text: str) -> list[str]:
    """Return the texts of all processes, in order, on each of them."""
    if not is_distributed():
        return [text]
    content = torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)
    sizes = torch.zeros(world_size(), dtype=torch.long)
    sizes[rank()] = len(content)
    gathered = _gather_leaf(content)
    parts = gathered.split(sum_over_processes(sizes).tolist())
    return [bytes(part.numpy()).decode() for part in parts]


def _on_first(do: Callable[[], T]) -> T | None:
    result, failure = None, None
    if rank() == 0:
        try:
            result = do()
        except Exception as error:
            failure = error
    failed = bool(sum_over_processes(torch.tensor(int(failure is not None))))
    if failure is not None:
        raise failure
    if failed:
        raise UserError("the first process failed and has reported why; fix that, then start all processes again")
    return result


def gather_rows(state: State) -> State:
    """Concatenate the rows of all processes, in order, on each of them."""
    if not is_distributed():
        return state
    return map_tree(_gather_leaf, state)


def _gather_leaf(leaf: Tensor) -> Tensor:
    sizes = torch.zeros(world_size(), dtype=torch.long, device=leaf.device)
    sizes[rank()] = len(leaf)
    counts = sum_over_processes(sizes).tolist()
    padded = torch.cat([leaf, leaf.new_zeros(max(counts) - len(leaf), *leaf.shape[1:])])
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def derived(*numbers: int) -> int:
    """Derive a seed from numbers such as (seed, step, process, micro-batch), so that checkpoints need no random
    state."""
    mixed = 0xCBF29CE484222325
    for number in numbers:
        for byte in int(number).to_bytes(8, "little", signed=True):
            mixed = ((mixed ^ byte) * 0x100000001B3) % 2**64
    return mixed >> 1


def seed_everything(*numbers: int) -> None:
    """Seed torch's generators from numbers."""
    seed = derived(*numbers)
    # Not torch.manual_seed, which formats a traceback at every call until CUDA is in use.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(seed)
    elif torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


def _timeout() -> float:
    text = os.environ.get(TIMEOUT, "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 10**6:
        raise UserError(f"{TIMEOUT} ({text!r}) must be a number of seconds above 0")
    return seconds
