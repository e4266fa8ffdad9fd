"""A peer: a plain GPT with a fixed-size cache, whose step is captured once as a CUDA graph and replayed."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.bench.peers import Block, MinimalGPT


class CapturedGPT:
    """Greedy decoding of `batch` rows of up to `capacity` positions. On a CPU the step runs without a graph."""

    def __init__(self, model: MinimalGPT, batch: int, capacity: int):
        weight = model.tokens.weight
        self.model = model
        self.blocks: list[Block] = list(model.blocks)  # type: ignore[arg-type]
        shape = (batch, self.blocks[0].num_heads, capacity, weight.shape[1] // self.blocks[0].num_heads)
        self.cache = [(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in self.blocks]
        self.places = torch.arange(capacity, device=weight.device)
        self.place = torch.zeros(1, dtype=torch.long, device=weight.device)  # the position of the next token to read
        self.token = torch.zeros(batch, 1, dtype=torch.long, device=weight.device)
        self.written = torch.zeros(batch, capacity, dtype=torch.long, device=weight.device)
        self.graph = self.capture() if weight.is_cuda else None

    @torch.no_grad()
    def capture(self) -> torch.cuda.CUDAGraph:
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            self.step()
        return graph

    def step(self) -> None:
        """Read the token at `place` and write the next one."""
        x = self.model.tokens(self.token) + self.model.positions(self.place)
        visible = (self.places <= self.place)[None, None, None]  # (1, 1, 1, capacity)
        for block, (keys, values) in zip(self.blocks, self.cache, strict=True):
            query, key, value = block.heads(x)
            keys.index_copy_(2, self.place, key)
            values.index_copy_(2, self.place, value)
            x = block.add(x, F.scaled_dot_product_attention(query, keys, values, attn_mask=visible))
        self.token.copy_(self.model.logits(self.model.norm(x)).argmax(-1))
        self.place.add_(1)
        self.written.index_copy_(1, self.place, self.token)

    @torch.no_grad()
    def greedy(self, tokens: Tensor, max_new: int) -> Tensor:
        length = tokens.shape[1]
        hidden, past = self.model.hidden(tokens)
        for (keys, values), (key, value) in zip(self.cache, past, strict=True):
            keys[:, :, :length], values[:, :, :length] = key, value
        self.token.copy_(self.model.logits(hidden[:, -1:]).argmax(-1))
        self.place.fill_(length)
        self.written[:, length] = self.token[:, 0]
        for _ in range(max_new - 1):
            if self.graph is None:
                self.step()
            else:
                self.graph.replay()
        return self.written[:, length : length + max_new].clone()
