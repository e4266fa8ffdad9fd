"""A task over several processes: every process has a replica (DDP), or a shard of each parameter (FSDP2). Only
`forward` may be called through either.

A shard is a DTensor that is split along its first axis. `whole` and `shard_of` convert between whole tensors and
shards, so that a checkpoint can be read by any number of processes.
"""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from clew.core.processes import is_distributed, world_size
from clew.kernels.projections import Together
from clew.layers.adapters import is_adapted, own_weights
from clew.layers.attention import SelfAttention
from clew.layers.sequence import Stack

# FSDP2 warns that a layer's output must not be modified in place; no code here does so.
warnings.filterwarnings("ignore", message="FSDP2-wrapped module")


def replicate(task: nn.Module) -> nn.Module:
    """Wrap the task in DistributedDataParallel, if there are several processes."""
    if not is_distributed():
        return task
    device = next(task.parameters()).device
    return nn.parallel.DistributedDataParallel(task, device_ids=[device] if device.type == "cuda" else None)


def shard(task: nn.Module) -> nn.Module:
    """Shard the task's parameters in place, and return the task. Each layer of a stack is gathered when it runs, all
    other parameters when the task runs."""
    mesh = init_device_mesh(next(task.parameters()).device.type, (world_size(),))
    for part in list(task.modules()):
        if isinstance(part, SelfAttention):
            part.together = Together(())
        if isinstance(part, Stack):
            for layer in part.layers:
                if any(True for _ in layer.parameters()):
                    fully_shard(layer, mesh=mesh)
    fully_shard(task, mesh=mesh)
    return task


def exchange_gradients(task: nn.Module, last: bool) -> AbstractContextManager[Any]:
    """Within this context, exchange gradients only for the last micro-batch: once per step."""
    if isinstance(task, FSDPModule):
        task.set_requires_gradient_sync(last)
    elif isinstance(task, nn.parallel.DistributedDataParallel) and not last:
        return task.no_sync()
    return nullcontext()


@contextmanager
def gathered(task: nn.Module) -> Iterator[None]:
    """Within this context every process has the whole parameters of a sharded task, so that it can run the task any
    number of times, independently of the others."""
    if not isinstance(task, FSDPModule):
        yield
        return
    shards = [part for part in task.modules() if isinstance(part, FSDPModule)]
    for part in shards:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in shards:
            part.set_reshard_after_forward(True, recurse=False)
            part.reshard()
            forget_forwards(part)


def forget_forwards(part: Any) -> None:
    """Forget the order in which layers ran.

    A backward pass prefetches layers in the order in which they ran since the previous backward pass. In an evaluation,
    processes run layers different numbers of times; they would then prefetch in different orders and deadlock.
    """
    state = part._get_fsdp_state()
    getattr(state._comm_ctx, "post_forward_order", []).clear()  # missing before the first forward
    # torch 2.11 has a single group.
    groups = state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
    for group in groups:
        group._post_forward_indices.clear()


def local(tensor: Tensor) -> Tensor:
    """Return this process's shard of a tensor, or the tensor itself if it is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """Return the whole tensor, gathered from all processes if it is sharded."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_weights(task: nn.Module) -> dict[str, Tensor]:
    """Return the weights to save in one file. Shards are gathered one tensor at a time; every process must call
    this."""
    return {name: whole(tensor.detach()).cpu() for name, tensor in own_weights(task, task.state_dict()).items()}


def shard_of(tensor: Tensor, like: Tensor) -> Tensor:
    """Convert a whole tensor to the device, dtype and sharding of `like`."""
    if isinstance(like, DTensor):
        return distribute_tensor(
            tensor.to(like.device, like.dtype), like.device_mesh, like.placements, src_data_rank=None
        )
    return tensor.to(like.device, like.dtype)


def load_whole(task: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load whole weights into a task, sharded or not. For a task with adapters, `weights` may have only the trained
    ones."""
    is_whole = not is_adapted(task)
    if not isinstance(task, FSDPModule):
        task.load_state_dict(weights, strict=is_whole)
        return
    current = task.state_dict()
    shards = {name: shard_of(tensor, current[name]) if name in current else tensor for name, tensor in weights.items()}
    task.load_state_dict(shards, strict=is_whole)


@torch.no_grad()
def total_norm(parameters: list[nn.Parameter]) -> Tensor:
    """Return the norm of all gradients, over all shards."""
    return whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
