"""This process among those that train together: one, unless a process group is running."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    return dist.get_world_size() if is_distributed() else 1


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of every process's value, on each of them."""
    if is_distributed():
        value = value.clone()
        dist.all_reduce(value)
    return value


def replicate(task: nn.Module) -> nn.Module:
    """The task under DistributedDataParallel where there are several processes. Only its `forward` may be called through that."""
    if not is_distributed():
        return task
    device = next(task.parameters()).device
    return nn.parallel.DistributedDataParallel(task, device_ids=[device] if device.type == "cuda" else None, broadcast_buffers=False)


def seed_everything(*numbers: int) -> None:
    """Seeds torch's generators from numbers such as (seed, step, process, micro-batch): randomness is derived, never stored."""
    mixed = 0xCBF29CE484222325
    for number in numbers:
        for byte in int(number).to_bytes(8, "little", signed=True):
            mixed = ((mixed ^ byte) * 0x100000001B3) % 2**64
    # Not torch.manual_seed: before CUDA is in use that formats a traceback at every call.
    torch.default_generator.manual_seed(mixed >> 1)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(mixed >> 1)
    elif torch.backends.mps.is_available():
        torch.mps.manual_seed(mixed >> 1)
