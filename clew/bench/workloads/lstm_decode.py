"""Greedy decoding with an LSTM, compared with a loop over torch.nn.LSTM, in bfloat16 on CUDA."""

import torch

from clew.bench.peers import PlainLSTM
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, decoding_cost
from clew.bench.workloads.steps import decode_greedily
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel

PEER, PROMPT = "nn.LSTM loop", 16


def lstm_decode(
    name: str, batch: int, full: tuple[int, int, int, int], cpu: tuple[int, int, int, int] | None = None
) -> Workload:
    """Build a workload. Sizes are (vocabulary, layers, dim, tokens)."""

    def build(setting: Setting) -> Work:
        vocabulary, layers, dim, new = setting.sizes(
            full, cpu=cpu, quick=(min(full[0], 1_000), full[1], full[2] // 4, 24)
        )
        dtype = torch.bfloat16 if setting.device.type == "cuda" else torch.float32
        prompt = torch.randint(vocabulary, (batch, PROMPT), device=setting.device)

        def ours() -> Call:
            body = build_recurrent(RecurrentConfig(dim=dim, num_layers=layers), Tokens(vocabulary))
            return decode_greedily(LanguageModel(body, None).to(setting.device, dtype).eval(), prompt, new)  # type: ignore[arg-type]

        def theirs() -> Call:
            peer = PlainLSTM(vocabulary, dim, layers).to(setting.device, dtype).eval()
            return lambda: peer.greedy(prompt, new)

        sides = [Side(OURS, ours), Side(PEER, theirs)]
        cost = decoding_cost(8 * layers * dim**2 + vocabulary * dim, batch, new, dtype)
        return Work(
            sides, f"{layers} x {dim}, batch {batch}, {new} tokens, vocabulary {vocabulary:,}", batch * new, cost, dtype
        )

    return Workload(
        name, f"greedy decoding with an LSTM, {full[1]} x {full[2]}, batch {batch}", build, (PEER,), warmup=2
    )


LSTM_DECODE = [
    lstm_decode("lstm-decode-1", 1, (65, 1, 512, 128)),
    lstm_decode("lstm-1024-decode-1", 1, (10_000, 2, 1024, 512), cpu=(10_000, 2, 1024, 64)),
    lstm_decode("lstm-1024-decode-64", 64, (10_000, 2, 1024, 512), cpu=(10_000, 2, 1024, 16)),
]
