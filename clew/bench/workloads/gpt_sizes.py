"""The sizes of a GPT: our model and the peer with these sizes, and the cost of a call."""

from typing import NamedTuple

import torch

from clew.bench.peers import MinimalGPT
from clew.bench.workload import Cost, decoding_cost, training_cost
from clew.models.gpt import GPTConfig, build_gpt
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig


class GPTSizes(NamedTuple):
    vocabulary: int
    dim: int
    num_layers: int
    num_heads: int
    max_length: int

    def __str__(self) -> str:
        return f"{self.num_layers} x {self.dim}"

    @property
    def weights(self) -> int:
        """The number of weights in the matrices that each token is multiplied with, including the output layer."""
        return 12 * self.num_layers * self.dim**2 + self.vocabulary * self.dim

    def ours(self, device: torch.device, dtype: torch.dtype = torch.float32) -> LanguageModel:
        config = GPTConfig(
            dim=self.dim, num_layers=self.num_layers, num_heads=self.num_heads, max_length=self.max_length
        )
        body = build_gpt(config, Tokens(self.vocabulary))
        return LanguageModel(body, None, LanguageModelConfig(tied=True, bias=False)).to(device, dtype)  # type: ignore[arg-type]

    def minimal(self, device: torch.device, dtype: torch.dtype = torch.float32) -> MinimalGPT:
        return MinimalGPT(*self).to(device, dtype)

    def training_cost(self, batch: int, length: int) -> Cost:
        """Return the cost of a training step; on average a query attends to half of the positions."""
        return training_cost(self.weights, batch * length, self.num_layers * self.dim * length * batch * length)

    def decoding_cost(self, batch: int, prompt: int, new: int, dtype: torch.dtype) -> Cost:
        """Return the cost of decoding: every step reads the keys and values of earlier positions, and the prompt is
        read in one call."""
        return decoding_cost(
            self.weights, batch, new, dtype, cached=2 * self.num_layers * self.dim * (prompt + new / 2)
        )


CHARACTERS = GPTSizes(vocabulary=65, dim=384, num_layers=6, num_heads=6, max_length=256)
GPT2 = GPTSizes(vocabulary=50_257, dim=768, num_layers=12, num_heads=12, max_length=1024)
SMALL = GPTSizes(vocabulary=65, dim=128, num_layers=4, num_heads=4, max_length=256)
