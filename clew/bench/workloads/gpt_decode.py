"""Greedy decoding with a character GPT, compared with a hand-written loop with a growing cache."""

import torch

from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload
from clew.bench.workloads.gpt_sizes import CHARACTERS, SMALL
from clew.bench.workloads.steps import decode_greedily

PEER, PROMPT = "minimal GPT", 16


def gpt_decode(batch: int) -> Workload:
    def build(setting: Setting) -> Work:
        sizes, new = setting.sizes((CHARACTERS, 128), quick=(SMALL, 24))
        prompt = torch.randint(sizes.vocabulary, (batch, PROMPT), device=setting.device)

        def ours() -> Call:
            return decode_greedily(sizes.ours(setting.device).eval(), prompt, new)

        def theirs() -> Call:
            peer = sizes.minimal(setting.device).eval()
            return lambda: peer.greedy(prompt, new)

        sides = [Side(OURS, ours), Side(PEER, theirs)]
        cost = sizes.decoding_cost(batch, PROMPT, new, torch.float32)
        return Work(sides, f"{sizes}, batch {batch}, {new} tokens", batch * new, cost)

    return Workload(
        f"gpt-decode-{batch}", f"greedy decoding with a character GPT, batch {batch}", build, (PEER,), warmup=2
    )


GPT_DECODE = [gpt_decode(batch) for batch in (1, 16)]
