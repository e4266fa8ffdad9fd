"""Beam search with the base Transformer, compared with transformers' Marian of the same sizes: five beams, and the same
length for every sentence."""

import tokenizers
import torch
from torch import Tensor

from clew.bench.published import marian_generate
from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, decoding_cost
from clew.decoding.beam import beam_search
from clew.models.transformer import TransformerConfig, build_transformer
from clew.sources.tokens import Tokens
from clew.tasks.shared.sequence import SequenceBatch, SequenceToSequence
from clew.text.tokenizer import Tokenizer

PEER, BEAMS = "transformers", 5
FULL = {"vocabulary": 32_000, "dim": 512, "num_layers": 6, "num_heads": 8}
QUICK = {"vocabulary": 1_000, "dim": 128, "num_layers": 2, "num_heads": 4}


def numbered_words(vocabulary: int) -> Tokenizer:
    words = ["<unk>", "<eos>", *map(str, range(vocabulary - 2))]
    model = tokenizers.models.WordLevel({word: id for id, word in enumerate(words)}, unk_token="<unk>")
    return Tokenizer(tokenizers.Tokenizer(model))


def base_transformer(sizes: dict[str, int]) -> SequenceToSequence:
    vocabulary, dim, layers, heads = sizes.values()
    config = TransformerConfig(dim=dim, num_layers=layers, num_heads=heads, dropout=0.0, shared_embeddings=True)
    words = numbered_words(vocabulary)
    return SequenceToSequence(build_transformer(config, Tokens(vocabulary), Tokens(vocabulary)), words, words).eval()


def run_beam(task: SequenceToSequence, source: Tensor, mask: Tensor | None, new: int) -> Call:
    start = torch.full((len(source), 1), task.start, device=source.device)
    read = SequenceBatch(
        source, mask, start, start, None, torch.zeros(len(source), dtype=torch.long, device=source.device)
    )

    @torch.no_grad()
    def call() -> object:
        return beam_search(task.stepper(read), start, beams=BEAMS, max_new=new, end=None)

    return call


def build(setting: Setting) -> Work:
    sizes, batch, length, new = setting.sizes((FULL, 64, 32, 32), cpu=(FULL, 4, 16, 16), quick=(QUICK, 4, 10, 10))
    dtype = torch.bfloat16 if setting.device.type == "cuda" else torch.float32
    vocabulary, dim, layers, _ = sizes.values()
    source = torch.randint(2, vocabulary - 1, (batch, length), device=setting.device)
    mask = torch.arange(length, device=setting.device) < torch.randint(
        length // 2, length + 1, (batch, 1), device=setting.device
    )
    sides = [
        Side(OURS, lambda: run_beam(base_transformer(sizes).to(setting.device, dtype), source, mask, new)),
        Side(PEER, lambda: marian_generate(sizes, source, mask, new, BEAMS, dtype), needs="transformers"),
    ]
    rows, weights = batch * BEAMS, layers * 14 * dim**2 + vocabulary * dim
    cost = decoding_cost(weights, rows, new, dtype, cached=2 * layers * dim * new / 2)
    shape = f"{layers} + {layers} layers of {dim}"
    return Work(sides, f"{shape}, beam {BEAMS}, batch {batch}, {new} tokens after {length}", batch * new, cost, dtype)


TRANSFORMER_BEAM = Workload("transformer-beam", "beam search with the base Transformer", build, (PEER,), rounds=7)
