"""Greedy decoding with a model of GPT-2's sizes (124M, random weights), compared with a captured step and
transformers."""

from torch import Tensor

from clew.bench.captured_gpt import CapturedGPT
from clew.bench.published import gpt2_generate
from clew.bench.timing import Call
from clew.bench.workloads.decoding import DTYPE, Peer, decode_workload
from clew.bench.workloads.gpt_sizes import GPT2, SMALL, GPTSizes


def captured(sizes: GPTSizes, prompt: Tensor, max_new: int) -> Call:
    rows, length = prompt.shape
    peer = CapturedGPT(sizes.minimal(prompt.device, DTYPE).eval(), rows, length + max_new)
    return lambda: peer.greedy(prompt, max_new)


def published(sizes: GPTSizes, prompt: Tensor, max_new: int) -> Call:
    return gpt2_generate(sizes._asdict(), prompt, max_new, DTYPE)


PEERS = (Peer("captured GPT", captured), Peer("transformers", published, needs="transformers"))
GPT2_DECODE = [decode_workload("gpt2-decode", "GPT-2 124M", batch, GPT2, SMALL, PEERS) for batch in (1, 32, 256)]
