"""Greedy decoding with a model of GPT-2's sizes (124M, random weights) in bfloat16, beside a captured step and transformers. CUDA alone."""

import torch

from clew.bench.captured_gpt import CapturedGPT
from clew.bench.published import gpt2_generate
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload
from clew.bench.workloads.gpt_sizes import GPT2, SMALL
from clew.bench.workloads.steps import decode_greedily

CAPTURED, PUBLISHED, DTYPE = "captured GPT", "transformers", torch.bfloat16


def gpt2_decode(batch: int) -> Workload:
    def build(setting: Setting) -> Work:
        sizes, length, new = setting.sizes((GPT2, 128, 128), quick=(SMALL, 16, 24))
        prompt = torch.randint(1, sizes.vocabulary, (batch, length), device=setting.device)  # 0 is padding to transformers

        def ours() -> Call:
            return decode_greedily(sizes.ours(setting.device, DTYPE).eval(), prompt, new)

        def captured() -> Call:
            peer = CapturedGPT(sizes.minimal(setting.device, DTYPE).eval(), batch, length + new)
            return lambda: peer.greedy(prompt, new)

        def published() -> Call:
            return gpt2_generate(sizes._asdict(), prompt, new, DTYPE)

        sides = [Side(OURS, ours), Side(CAPTURED, captured), Side(PUBLISHED, published, needs="transformers")]
        cost = sizes.decoding_cost(batch, length, new, DTYPE)
        return Work(sides, f"{sizes}, batch {batch}, {new} tokens after {length}", batch * new, cost, DTYPE)

    about = f"greedy decoding with GPT-2 124M, batch {batch}, bfloat16"
    return Workload(f"gpt2-decode-{batch}", about, build, (CAPTURED, PUBLISHED), devices=("cuda",), rounds=7)


GPT2_DECODE = [gpt2_decode(batch) for batch in (1, 32, 256)]
