"""Score a text with a language model: the log-probability of every token."""

from dataclasses import dataclass

import torch

from clew.core.errors import UserError
from clew.data.plans import TokenBatch
from clew.metrics.perplexity import Likelihood
from clew.tasks.language_model import LanguageModel


@dataclass(frozen=True)
class Scored:
    """The tokens of a text, their character offsets and their log-probabilities. The first token is read, not
    predicted."""

    text: str
    tokens: list[int]
    offsets: list[tuple[int, int]]
    log_probs: list[float]
    unit: str

    @property
    def likelihood(self) -> Likelihood:
        return Likelihood(
            -sum(self.log_probs), len(self.log_probs), len(self.text) - (self.offsets[0][1] if self.offsets else 0)
        )

    def __repr__(self) -> str:
        return (
            f"Scored({len(self.tokens)} tokens, {-sum(self.log_probs):.4f} nats: loss {self.likelihood.loss:.4f} per"
            f" {self.unit})"
        )


@torch.no_grad()
def score_text(task: LanguageModel, text: str, length: int, carry: bool) -> Scored:
    """Score a text in chunks of `length` tokens, as the model was trained: with the state carried over, or every
    chunk independently. The tokens that the tokenizer's frame has before a text are read first."""
    tokens, offsets = task.tokenizer.encode_with_offsets(text)
    if len(tokens) < 2:
        raise UserError(
            f"a text needs at least 2 tokens to be scored, one to read and one to predict; found {len(tokens)}"
        )
    frame = task.tokenizer.frame
    before = [] if frame is None else frame.before
    was_training = task.training
    task.eval()
    try:
        log_probs = _log_probs(task, [*before, *tokens], length, carry)[len(before) :]
        return Scored(text, tokens, offsets, log_probs, task.tokenizer.unit)
    finally:
        task.train(was_training)


def _log_probs(task: LanguageModel, tokens: list[int], length: int, carry: bool) -> list[float]:
    ids = torch.tensor(tokens, device=task.body.embedding.like.device)[None]
    log_probs: list[float] = []
    state = None
    for start in range(0, len(tokens) - 1, length):
        stop = min(start + length, len(tokens) - 1)
        batch = TokenBatch(ids[:, start:stop], ids[:, start + 1 : stop + 1], None, start == 0)
        chunk_log_probs, state = task.predict(batch, state if carry else None)
        log_probs += chunk_log_probs[0].tolist()
    return log_probs
