"""Shakespeare by the character, for experiments that compare small language models: batches that are drawn, text that is held out, and how
many bits each place of it costs a model."""

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.types import Body
from clew.data.plans import TokenBatch
from clew.data.samples import sample_path
from clew.tasks.language_model import LanguageModel
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS
from clew.tour.training import generator

UNSEEN = 0.1
"""The share of the text, its end, that nothing is trained on."""


class Characters(NamedTuple):
    tokenizer: Tokenizer
    train: Tensor
    unseen: Tensor

    def batch(self, number: int, *, rows: int, length: int, seed: int) -> TokenBatch:
        """Windows drawn from the text for training: the same for the same number and seed."""
        starts = torch.randint(len(self.train) - length, (rows,), generator=generator(seed, number))
        return windows(self.train, starts, length)

    def held_out(self, *, rows: int, length: int) -> TokenBatch:
        """Windows of the unseen text, evenly spread."""
        return windows(self.unseen, torch.linspace(0, len(self.unseen) - length - 1, rows).long(), length)


def windows(tokens: Tensor, starts: Tensor, length: int) -> TokenBatch:
    """Each with the character after every place as its target."""
    rows = tokens[starts[:, None] + torch.arange(length + 1)]
    return TokenBatch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())


@cache
def shakespeare() -> Characters:
    text = sample_path("tinyshakespeare").read_text(encoding="utf-8")
    tokenizer = TOKENIZERS["character"]([text])
    tokens = torch.tensor(tokenizer.encode(text))
    kept = int(len(tokens) * (1 - UNSEEN))
    return Characters(tokenizer, tokens[:kept], tokens[kept:])


def predictor(body: Body, characters: Characters) -> LanguageModel:
    """A body with a softmax over the characters; one that sees what comes after a place is not refused, as it is elsewhere."""
    return LanguageModel(body, characters.tokenizer)


def bits_of(task: LanguageModel, batch: TokenBatch, *, rows: int = 64) -> Tensor:
    """-log2 p of every target (batch, length), some rows at a time."""
    found = []
    with torch.no_grad():
        for start in range(0, len(batch.tokens), rows):
            part = slice(start, start + rows)
            found.append(task.predict(TokenBatch(batch.tokens[part], batch.targets[part]))[0])
    return -torch.cat(found) / math.log(2)
