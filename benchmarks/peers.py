"""The peers: the shortest honest torch code for the same model, as a person would write it for that model alone."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PlainLSTM(nn.Module):
    """nn.Embedding, nn.LSTM, nn.Linear."""

    def __init__(self, vocabulary: int, dim: int, num_layers: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.lstm = nn.LSTM(dim, dim, num_layers, batch_first=True)
        self.output = nn.Linear(dim, vocabulary)

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.output(hidden), state


class Block(nn.Module):
    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.inner, self.outer = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.num_heads, dim // self.num_heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
        return x + self.outer(F.gelu(self.inner(self.norm2(x)), approximate="tanh")), (k, v)


class MinimalGPT(nn.Module):
    """A GPT in forty lines on scaled_dot_product_attention, with one fused projection and a cache that grows by concatenation."""

    def __init__(self, vocabulary: int, dim: int, num_layers: int, num_heads: int, max_length: int):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(max_length, dim)
        self.blocks = nn.ModuleList(Block(dim, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(dim)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2))

    def forward(self, tokens: Tensor, past: list[tuple[Tensor, Tensor]] | None = None) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        start = 0 if past is None else past[0][0].shape[2]
        x = self.tokens(tokens) + self.positions(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        cache = []
        for number, block in enumerate(self.blocks):
            x, kept = block(x, None if past is None else past[number])
            cache.append(kept)
        return self.norm(x) @ self.tokens.weight.T, cache

    @torch.no_grad()
    def greedy(self, tokens: Tensor, max_new: int) -> Tensor:
        logits, past = self(tokens)
        found = [logits[:, -1].argmax(-1)]
        for _ in range(max_new - 1):
            logits, past = self(found[-1][:, None], past)
            found.append(logits[:, -1].argmax(-1))
        return torch.stack(found, 1)
