"""Peers: the shortest fair torch code for the same model, as one would write it for only that model.

This file imports nothing from clew.
"""

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

    def forward(
        self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.output(hidden), state

    @torch.no_grad()
    def greedy(self, tokens: Tensor, max_new: int) -> Tensor:
        logits, state = self(tokens)
        generated = [logits[:, -1].argmax(-1)]
        for _ in range(max_new - 1):
            logits, state = self(generated[-1][:, None], state)
            generated.append(logits[:, -1].argmax(-1))
        return torch.stack(generated, 1)


class Block(nn.Module):
    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.inner, self.outer = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.heads(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.add(x, F.scaled_dot_product_attention(q, k, v, is_causal=past is None)), (k, v)

    def heads(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        return (
            self.qkv(self.norm1(x)).view(batch, length, 3, self.num_heads, dim // self.num_heads).permute(2, 0, 3, 1, 4)
        )

    def add(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.outer(F.gelu(self.inner(self.norm2(x)), approximate="tanh"))


class MinimalGPT(nn.Module):
    """A GPT in fifty lines with scaled_dot_product_attention, one fused projection and a cache that grows by
    concatenation."""

    def __init__(self, vocabulary: int, dim: int, num_layers: int, num_heads: int, max_length: int):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(max_length, dim)
        self.blocks = nn.ModuleList(Block(dim, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(dim)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2))

    def forward(
        self, tokens: Tensor, past: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        hidden, cache = self.hidden(tokens, past)
        return self.logits(hidden), cache

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.tokens.weight.T

    def hidden(
        self, tokens: Tensor, past: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        start = 0 if past is None else past[0][0].shape[2]
        x = self.tokens(tokens) + self.positions(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        cache = []
        for number, block in enumerate(self.blocks):
            x, keys_and_values = block(x, None if past is None else past[number])
            cache.append(keys_and_values)
        return self.norm(x), cache

    @torch.no_grad()
    def greedy(self, tokens: Tensor, max_new: int) -> Tensor:
        logits, past = self(tokens)
        generated = [logits[:, -1].argmax(-1)]
        for _ in range(max_new - 1):
            logits, past = self(generated[-1][:, None], past)
            generated.append(logits[:, -1].argmax(-1))
        return torch.stack(generated, 1)


class PlainAttentive(nn.Module):
    """A bidirectional nn.LSTM, and a decoder with attention: a loop over nn.LSTMCell with keys projected once, or
    nn.LSTM if nothing is fed back.

    `kind` is "before" (additive attention; the context is an input of the cell), or "fed" or "after" (general
    attention, h~ = tanh(W [context; s]), which is fed back or not).
    """

    def __init__(self, vocabulary: int, dim: int, kind: str):
        super().__init__()
        self.kind = kind
        self.source, self.target = nn.Embedding(vocabulary, dim), nn.Embedding(vocabulary, dim)
        self.encoder = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.bridge = nn.ModuleList(nn.Linear(2 * dim, dim) for _ in range(2))
        self.cell = (
            nn.LSTM(dim, dim, batch_first=True)
            if kind == "after"
            else nn.LSTMCell(3 * dim if kind == "before" else 2 * dim, dim)
        )
        self.keys = nn.Linear(2 * dim, 2 * dim if kind == "before" else dim)
        self.query, self.vector = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(2 * dim, 1, bias=False)
        self.join = nn.Linear(3 * dim, dim, bias=False)
        self.output = nn.Linear(3 * dim if kind == "before" else dim, vocabulary)

    def forward(self, source: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        lengths = mask.sum(1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        read, final = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(read, batch_first=True, total_length=source.shape[1])
        h, c = (
            torch.tanh(linear(torch.cat([part[0], part[1]], -1)))
            for linear, part in zip(self.bridge, final, strict=True)
        )
        keys, hidden, x = self.keys(memory), (~mask)[:, None], self.target(tokens)
        if self.kind == "after":
            s, _ = self.cell(x, (h[None], c[None]))
            weights = (s @ keys.mT).masked_fill(hidden, float("-inf")).softmax(-1)
            return self.output(torch.tanh(self.join(torch.cat([weights @ memory, s], -1))))
        outputs, fed = [], torch.zeros_like(h)
        for x_t in x.unbind(1):
            if self.kind == "before":
                scores = self.vector(torch.tanh(self.query(h)[:, None] + keys))[..., 0]
                context = (scores.masked_fill(~mask, float("-inf")).softmax(-1)[:, None] @ memory)[:, 0]
                h, c = self.cell(torch.cat([x_t, context], -1), (h, c))
                outputs.append(torch.cat([h, context], -1))
            else:
                h, c = self.cell(torch.cat([x_t, fed], -1), (h, c))
                weights = (h[:, None] @ keys.mT).masked_fill(hidden, float("-inf")).softmax(-1)
                fed = torch.tanh(self.join(torch.cat([(weights @ memory)[:, 0], h], -1)))
                outputs.append(fed)
        return self.output(torch.stack(outputs, 1))


class PlainTransformer(nn.Module):
    """torch.nn.Transformer between embeddings and an output layer."""

    def __init__(self, vocabulary: int, dim: int, num_heads: int, num_layers: int):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, dim), nn.Embedding(vocabulary, dim)
        self.positions = nn.Embedding(1024, dim)
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(dim, num_heads, 4 * dim, 0.0, batch_first=True),
            num_layers,
            enable_nested_tensor=False,
        )
        self.transformer = nn.Transformer(
            dim, num_heads, 0, num_layers, 4 * dim, 0.0, custom_encoder=encoder, batch_first=True
        )
        self.output = nn.Linear(dim, vocabulary)

    def forward(self, source: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        future = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device, dtype=torch.bool)
        read, written = self.source(source) + self.positions(places), self.target(tokens) + self.positions(places)
        options = {
            "tgt_mask": future,
            "tgt_is_causal": True,
            "src_key_padding_mask": ~mask,
            "memory_key_padding_mask": ~mask,
        }
        return self.output(self.transformer(read, written, **options))
