"""Greedy decoding of 128 tokens beside hand-written loops: a GPT of 6 x 384 with batch 1 and 16, an LSTM of 512 with batch 1."""

import torch
from torch import Tensor

from benchmarks.gpt_train import VOCABULARY
from benchmarks.gpt_train import build as build_gpts
from benchmarks.peers import PlainLSTM
from benchmarks.side_by_side import Comparison, compare, device
from clew.decoding.sampling import greedy_sequences
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel

NEW, PROMPT, DIM = 128, 16, 512


def run() -> list[Comparison]:
    task, peer = build_gpts()
    results = [one(task.eval(), peer.eval(), "GPT 6 x 384", "minimal GPT, growing cache", batch) for batch in (1, 16)]
    recurrent = LanguageModel(build_recurrent(RecurrentConfig(dim=DIM), Tokens(VOCABULARY)), None).to(device()).eval()  # type: ignore[arg-type]
    return [*results, one(recurrent, GreedyLSTM(VOCABULARY, DIM, 1).to(device()).eval(), "LSTM 512", "torch.nn.LSTM loop", 1)]


def one(task: LanguageModel, peer: torch.nn.Module, name: str, peer_name: str, batch: int) -> Comparison:
    prompt = torch.randint(VOCABULARY, (batch, PROMPT), device=device())
    return compare(
        f"{name} greedy decode of {NEW}, batch {batch}",
        peer_name,
        lambda: greedy_sequences(task.stepper(), prompt, max_new=NEW),
        lambda: peer.greedy(prompt, NEW),  # type: ignore[operator]
        tokens=batch * NEW,
        rounds=15,
        warmup=2,
    )


class GreedyLSTM(PlainLSTM):
    @torch.no_grad()
    def greedy(self, tokens: Tensor, max_new: int) -> Tensor:
        logits, state = self(tokens)
        found = [logits[:, -1].argmax(-1)]
        for _ in range(max_new - 1):
            logits, state = self(found[-1][:, None], state)
            found.append(logits[:, -1].argmax(-1))
        return torch.stack(found, 1)
