"""Greedy decoding with a Llama of GPT-2's depth and width (134M, random weights), compared with transformers."""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.bench.published import llama_generate
from clew.bench.timing import Call
from clew.bench.workload import Cost, decoding_cost
from clew.bench.workloads.decoding import DTYPE, Peer, decode_workload
from clew.models.llama import LlamaConfig, build_llama
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig


class LlamaSizes(NamedTuple):
    vocabulary: int
    dim: int
    num_layers: int
    num_heads: int
    hidden_dim: int
    max_length: int

    def __str__(self) -> str:
        return f"{self.num_layers} x {self.dim}, vocabulary {self.vocabulary:,}"

    @property
    def weights(self) -> int:
        """The number of weights in the matrices that each token is multiplied with, including the output layer."""
        return self.num_layers * (4 * self.dim**2 + 3 * self.dim * self.hidden_dim) + self.vocabulary * self.dim

    def ours(self, device: torch.device, dtype: torch.dtype) -> LanguageModel:
        config = LlamaConfig(
            dim=self.dim, num_layers=self.num_layers, num_heads=self.num_heads, hidden_dim=self.hidden_dim
        )
        body = build_llama(config, Tokens(self.vocabulary))
        return LanguageModel(body, None, LanguageModelConfig(bias=False)).to(device, dtype)  # type: ignore[arg-type]

    def decoding_cost(self, batch: int, prompt: int, new: int, dtype: torch.dtype) -> Cost:
        """Return the cost of decoding: every step reads the keys and values of earlier positions, and the prompt is
        read in one call."""
        return decoding_cost(
            self.weights, batch, new, dtype, cached=2 * self.num_layers * self.dim * (prompt + new / 2)
        )


def published(sizes: LlamaSizes, prompt: Tensor, max_new: int) -> Call:
    return llama_generate(sizes._asdict(), prompt, max_new, DTYPE)


FULL = LlamaSizes(vocabulary=32_000, dim=768, num_layers=12, num_heads=12, hidden_dim=2048, max_length=1024)
QUICK = LlamaSizes(vocabulary=65, dim=128, num_layers=4, num_heads=4, hidden_dim=344, max_length=256)
PEERS = (Peer("transformers", published, needs="transformers"),)
LLAMA_DECODE = [decode_workload("llama-decode", "a Llama, 12 x 768", batch, FULL, QUICK, PEERS) for batch in (1, 32)]
