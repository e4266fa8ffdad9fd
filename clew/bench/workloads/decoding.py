"""The common part of workloads that decode greedily in bfloat16 with a model of given sizes, compared with its peers.
CUDA only."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from clew.bench.timing import Call
from clew.bench.workload import OURS, Cost, Setting, Side, Work, Workload
from clew.bench.workloads.steps import decode_greedily
from clew.tasks.language_model import LanguageModel

DTYPE = torch.bfloat16


class DecodingSizes(Protocol):
    """The sizes of a language model: their text, our model with these sizes, and the cost of decoding with it."""

    @property
    def vocabulary(self) -> int: ...

    def ours(self, device: torch.device, dtype: torch.dtype) -> LanguageModel: ...

    def decoding_cost(self, batch: int, prompt: int, new: int, dtype: torch.dtype) -> Cost: ...


Sizes = TypeVar("Sizes", bound=DecodingSizes)


class Peer(NamedTuple):
    """A peer: `make(sizes, prompt, max_new)` builds it on the prompt's device and returns the function to time."""

    name: str
    make: Callable[[Any, Tensor, int], Call]
    needs: str = ""


def decode_workload(name: str, model: str, batch: int, full: Sizes, quick: Sizes, peers: tuple[Peer, ...]) -> Workload:
    """Build a workload that decodes 128 tokens after a prompt of 128 in each of `batch` rows. `name` is the workload's
    name without the batch size, `model` describes the model."""

    def build(setting: Setting) -> Work:
        sizes, length, new = setting.sizes((full, 128, 128), quick=(quick, 16, 24))
        # 0 is padding in transformers.
        prompt = torch.randint(1, sizes.vocabulary, (batch, length), device=setting.device)

        def ours() -> Call:
            return decode_greedily(sizes.ours(setting.device, DTYPE).eval(), prompt, new)

        sides = [
            Side(OURS, ours),
            *(Side(peer.name, partial(peer.make, sizes, prompt, new), peer.needs) for peer in peers),
        ]
        cost = sizes.decoding_cost(batch, length, new, DTYPE)
        return Work(sides, f"{sizes}, batch {batch}, {new} tokens after {length}", batch * new, cost, DTYPE)

    about = f"greedy decoding with {model}, batch {batch}, bfloat16"
    return Workload(f"{name}-{batch}", about, build, tuple(peer.name for peer in peers), devices=("cuda",), rounds=7)
