"""A task over several processes: every one has the whole of it (DDP), or a shard of each parameter (FSDP2). Only
`forward` may be called through either.

A shard is a DTensor cut along its first axis; `whole` and `shard_of` go from one to the other, so that what is saved by
any number of processes can be read by any other.
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

# It warns of writing in place into what a layer gives back, which nothing here does.
warnings.filterwarnings("ignore", message="FSDP2-wrapped module")


def replicate(task: nn.Module) -> nn.Module:
    """The task under DistributedDataParallel where there are several processes."""
    if not is_distributed():
        return task
    device = next(task.parameters()).device
    return nn.parallel.DistributedDataParallel(task, device_ids=[device] if device.type == "cuda" else None)


def shard(task: nn.Module) -> nn.Module:
    """The same task, its parameters sharded in place: each layer of a stack is gathered when it is run, the rest with
    the task."""
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


def gradients_together(task: nn.Module, last: bool) -> AbstractContextManager[Any]:
    """Processes exchange gradients once a step, with the last micro-batch."""
    if isinstance(task, FSDPModule):
        task.set_requires_gradient_sync(last)
    elif isinstance(task, nn.parallel.DistributedDataParallel) and not last:
        return task.no_sync()
    return nullcontext()


@contextmanager
def gathered(task: nn.Module) -> Iterator[None]:
    """Within this context every process holds the whole of a sharded task, so that each may run it as often as it
    likes."""
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
    """A backward pass gathers layers ahead in the order in which they were run since the one before. Processes that
    evaluate run theirs as often as each has to, would then gather in different orders, and wait for each other for
    ever."""
    state = part._get_fsdp_state()
    getattr(state._comm_ctx, "post_forward_order", []).clear()  # not there before the first
    groups = (
        state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
    )  # torch 2.11 has one
    for group in groups:
        group._post_forward_indices.clear()


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor: its shard, or all of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, gathered from every process where it is sharded."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_weights(task: nn.Module) -> dict[str, Tensor]:
    """The weights to save in one file, one gathered at a time; every process has to ask."""
    return {name: whole(tensor.detach()).cpu() for name, tensor in own_weights(task, task.state_dict()).items()}


def shard_of(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as `like` holds it: on its device, and sharded where that is."""
    if isinstance(like, DTensor):
        return distribute_tensor(
            tensor.to(like.device, like.dtype), like.device_mesh, like.placements, src_data_rank=None
        )
    return tensor.to(like.device, like.dtype)


def load_whole(task: nn.Module, weights: dict[str, Tensor]) -> None:
    """Puts whole weights into a task, sharded or not; into one with adapters those that are its own."""
    is_whole = not is_adapted(task)
    if not isinstance(task, FSDPModule):
        task.load_state_dict(weights, strict=is_whole)
        return
    there = task.state_dict()
    cut = {name: shard_of(tensor, there[name]) if name in there else tensor for name, tensor in weights.items()}
    task.load_state_dict(cut, strict=is_whole)


@torch.no_grad()
def total_norm(parameters: list[nn.Parameter]) -> Tensor:
    """The norm of all gradients, of every shard."""
    return whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
