"""An eager training step of a character GPT in clew's loop, compared with a minimal GPT."""

import torch
import torch.nn.functional as F

from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload
from clew.bench.workloads.gpt_sizes import CHARACTERS, SMALL
from clew.bench.workloads.steps import loop_step, train_step
from clew.data.plans import TokenBatch

PEER = "minimal GPT"


def build(setting: Setting) -> Work:
    sizes, batch, length = setting.sizes((CHARACTERS, 12, 256), quick=(SMALL, 8, 64))
    tokens, targets = torch.randint(sizes.vocabulary, (2, batch, length), device=setting.device)

    def ours() -> Call:
        task = sizes.ours(setting.device)
        optimiser = torch.optim.AdamW(task.parameters(), lr=1e-3, fused=True)
        return loop_step(task, TokenBatch(tokens.cpu(), targets.cpu()), optimiser)

    def theirs() -> Call:
        peer = sizes.minimal(setting.device)
        optimiser = torch.optim.AdamW(peer.parameters(), lr=1e-3, fused=True)
        return train_step(optimiser, lambda: F.cross_entropy(peer(tokens)[0].flatten(0, 1), targets.flatten()))

    sides = [Side(OURS, ours), Side(PEER, theirs)]
    return Work(sides, f"{sizes}, {batch} x {length} tokens", batch * length, sizes.training_cost(batch, length))


GPT_TRAIN = Workload("gpt-train", "a training step of a character GPT", build, (PEER,), rounds=7, warmup=2)
