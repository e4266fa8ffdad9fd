"""A training step of a character GPT beside a minimal GPT: 6 x 384, context 256, batch 12."""

import torch
import torch.nn.functional as F

from benchmarks.peers import MinimalGPT
from benchmarks.side_by_side import Comparison, compare, device
from clew.data.plans import TokenBatch
from clew.models.gpt import GPTConfig, build_gpt
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig

VOCABULARY, DIM, LAYERS, HEADS, BATCH, LENGTH = 65, 384, 6, 6, 12, 256


def build() -> tuple[LanguageModel, MinimalGPT]:
    config = GPTConfig(dim=DIM, num_layers=LAYERS, num_heads=HEADS, max_length=LENGTH)
    task = LanguageModel(build_gpt(config, Tokens(VOCABULARY)), None, LanguageModelConfig(tied=True, bias=False))  # type: ignore[arg-type]
    return task.to(device()), MinimalGPT(VOCABULARY, DIM, LAYERS, HEADS, LENGTH).to(device())


def run() -> list[Comparison]:
    task, peer = build()
    tokens, targets = torch.randint(VOCABULARY, (2, BATCH, LENGTH), device=device())
    our_optimiser, their_optimiser = (torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True) for model in (task, peer))

    def ours() -> None:
        terms, _ = task(TokenBatch(tokens, targets))
        our_optimiser.zero_grad()
        (terms["loss"].sum / terms["loss"].count).backward()
        our_optimiser.step()

    def theirs() -> None:
        logits, _ = peer(tokens)
        their_optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        their_optimiser.step()

    return [compare("GPT train step, 6 x 384, 12 x 256", "minimal GPT, eager", ours, theirs, tokens=BATCH * LENGTH, rounds=7, warmup=2)]
