"""A compiled training step of a model of GPT-2's sizes (124M) under bfloat16 autocast, compared with a minimal GPT.
CUDA only.

Ours is also timed without capturing passes as CUDA graphs.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.bench.peers import MinimalGPT
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload
from clew.bench.workloads.gpt_sizes import GPT2, SMALL
from clew.bench.workloads.steps import loop_step, train_step
from clew.data.plans import TokenBatch
from clew.training.compiled import Carrying

PEER, EAGER, DTYPE = "minimal GPT", "clew, not captured", torch.bfloat16


class WithLoss(nn.Module):
    def __init__(self, model: MinimalGPT):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.model(tokens)[0].flatten(0, 1), targets.flatten())


def build(setting: Setting) -> Work:
    sizes, batch, length = setting.sizes((GPT2, 32, 1024), quick=(SMALL, 8, 64))
    tokens, targets = torch.randint(sizes.vocabulary, (2, batch, length), device=setting.device)

    def autocast() -> torch.autocast:
        return torch.autocast(setting.device.type, DTYPE)

    def optimiser_of(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def ours(capture: bool = True) -> Call:
        task = sizes.ours(setting.device)
        batch = TokenBatch(tokens.cpu(), targets.cpu())
        compiled = torch.compile(Carrying(task, False))
        return loop_step(compiled, batch, optimiser_of(task), autocast=autocast, counts=task.counts, capture=capture)  # type: ignore[arg-type]

    def theirs() -> Call:
        peer = WithLoss(sizes.minimal(setting.device))
        compiled = torch.compile(peer)

        def loss() -> Tensor:
            with autocast():
                value: Tensor = compiled(tokens, targets)
            return value

        return train_step(optimiser_of(peer), loss)

    sides = [Side(OURS, ours), Side(PEER, theirs), Side(EAGER, partial(ours, capture=False))]
    return Work(sides, f"{sizes}, {batch} x {length} tokens", batch * length, sizes.training_cost(batch, length), DTYPE)


GPT2_TRAIN = Workload(
    "gpt2-train", "a compiled training step of GPT-2 124M, bfloat16", build, (PEER, EAGER), devices=("cuda",), rounds=7
)
