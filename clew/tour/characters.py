"""Shakespeare by character, for experiments that compare small language models: random batches, held-out text, and a
model's bits at each position of it."""

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.types import Body
from clew.data.plans import TokenBatch
from clew.tasks.language_model import LanguageModel
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS
from clew.tour.texts import shakespeare, windows


class Characters(NamedTuple):
    tokenizer: Tokenizer
    train: Tensor
    unseen: Tensor

    def batch(self, number: int, *, rows: int, length: int, seed: int) -> TokenBatch:
        """Return random windows of the training text, determined by number and seed."""
        return windows(self.train, rows, length, seed, number)

    def held_out(self, *, rows: int, length: int) -> TokenBatch:
        """Return evenly spaced windows of the unseen text."""
        starts = torch.linspace(0, len(self.unseen) - length - 1, rows).long()
        pieces = self.unseen[starts[:, None] + torch.arange(length + 1)]
        return TokenBatch(pieces[:, :-1], pieces[:, 1:])


@cache
def characters_of_shakespeare() -> Characters:
    text = shakespeare()
    tokenizer = TOKENIZERS["character"]([text["train"]])
    return Characters(tokenizer, *(torch.tensor(tokenizer.encode(text[part])) for part in ("train", "valid")))


def predictor(body: Body, characters: Characters) -> LanguageModel:
    """Build a language model from a body. A non-causal body is allowed here, unlike elsewhere."""
    return LanguageModel(body, characters.tokenizer)


def bits_of(task: LanguageModel, batch: TokenBatch, *, rows: int = 64) -> Tensor:
    """Return -log2 p of every target (batch, length), computed `rows` rows at a time."""
    log_probs = []
    with torch.no_grad():
        for start in range(0, len(batch.tokens), rows):
            part = slice(start, start + rows)
            log_probs.append(task.predict(TokenBatch(batch.tokens[part], batch.targets[part]))[0])
    return -torch.cat(log_probs) / math.log(2)
