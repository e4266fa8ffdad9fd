"""The cost of a computation: floating-point operations, peak memory, and the longest chain of dependent products.
Counted per operation while it runs, so that it is the same on every machine; knows no layer.

FLOPs are those of matrix products and convolutions, two for each multiplication with its addition, as in
`torch.utils.flop_counter`. Memory is what was allocated during the computation, without what existed before. A fused
kernel, such as an LSTM, hides its products: run the equations to count them.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakTensorKeyDictionary


class Metered(NamedTuple):
    flops: int
    memory: int
    """Bytes."""
    chain: int
    """Length of the longest chain of products, each of which needs the result of the one before."""


def metered(call: Callable[[], Any]) -> Metered:
    """Measure a call, without gradients."""
    meter = Meter()
    with torch.no_grad(), meter:
        call()
    return Metered(meter.flops, meter.peak, meter.chain)


class Meter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.flops = self.chain = self.alive = self.peak = 0
        self.depths = WeakTensorKeyDictionary()
        self.storages: dict[int, Any] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and torch would load its compiler to find out, which takes two seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        for leaf in tensors:
            self.note(leaf, is_new=False)
        depth = max((self.depths.get(leaf, 0) for leaf in tensors), default=0)
        out = func(*args, **kwargs)
        if (formula := flop_registry.get(func._overloadpacket)) is not None:
            self.flops += formula(*args, **kwargs, out_val=out)
            depth += 1
        self.chain = max(self.chain, depth)
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.depths[leaf] = max(depth, self.depths.get(leaf, 0))
                self.note(leaf, is_new=True)
        return out

    def note(self, tensor: Tensor, *, is_new: bool) -> None:
        """Count a block of memory once, until it is freed; blocks that existed before are not counted."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.storages:
            return
        size = storage.nbytes() if is_new else 0

        def freed(_: Any) -> None:
            if self.storages.pop(key, None) is not None:
                self.alive -= size

        self.storages[key] = weakref.ref(storage, freed)
        self.alive += size
        self.peak = max(self.peak, self.alive)
