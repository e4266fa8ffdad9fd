"""Greedy decoding with alternating LSTM and attention layers (random weights), compared with the same model without a
captured step."""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.bench.timing import Call
from clew.bench.workload import Cost, decoding_cost
from clew.bench.workloads.decoding import DTYPE, Peer, decode_workload
from clew.bench.workloads.steps import decode_eagerly
from clew.models.mixed import MixedConfig, build_mixed
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel


class MixedSizes(NamedTuple):
    """Half of the layers are LSTMs, the other half attention."""

    vocabulary: int
    dim: int
    num_layers: int
    num_heads: int

    def __str__(self) -> str:
        return f"{self.num_layers} x {self.dim}, vocabulary {self.vocabulary:,}"

    @property
    def weights(self) -> int:
        """The number of weights in the matrices that each token is multiplied with, including the output layer."""
        return self.num_layers // 2 * (8 + 4) * self.dim**2 + self.vocabulary * self.dim

    def ours(self, device: torch.device, dtype: torch.dtype) -> LanguageModel:
        attention = {"name": "attention", "num_heads": self.num_heads}
        config = MixedConfig(dim=self.dim, layers=["lstm", attention] * (self.num_layers // 2))
        return LanguageModel(build_mixed(config, Tokens(self.vocabulary)), None).to(device, dtype)  # type: ignore[arg-type]

    def decoding_cost(self, batch: int, prompt: int, new: int, dtype: torch.dtype) -> Cost:
        """Return the cost of decoding: every step reads the keys and values of earlier positions, and the prompt is
        read in one call."""
        return decoding_cost(self.weights, batch, new, dtype, cached=self.num_layers * self.dim * (prompt + new / 2))


def not_captured(sizes: MixedSizes, prompt: Tensor, max_new: int) -> Call:
    return decode_eagerly(sizes.ours(prompt.device, DTYPE).eval(), prompt, max_new)


FULL = MixedSizes(vocabulary=10_000, dim=768, num_layers=12, num_heads=12)
QUICK = MixedSizes(vocabulary=65, dim=128, num_layers=4, num_heads=4)
PEERS = (Peer("clew, not captured", not_captured),)
MIXED_DECODE = [
    decode_workload("mixed-decode", "alternating LSTMs and attention, 12 x 768", batch, FULL, QUICK, PEERS)
    for batch in (1, 32)
]
