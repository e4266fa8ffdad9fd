"""Language models for decoding a transcriber's frames: letter n-grams counted in a text, or another run that
generates letters."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from clew.baselines.kneser_ney import KneserNey, fit_kneser_ney
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.decoding.ctc import LanguageModel
from clew.decoding.stepper import prefill
from clew.tasks.offers import ModelInput
from clew.text.tokenizer import Tokenizer

BEAMS = 16
"""Default number of prefixes in a search with a language model."""
UNKNOWN = -30.0
"""log p of a letter that the language model does not know."""
MOST_KEPT = 4096
"""Maximum number of prefixes whose states are cached."""


class Spelling(NamedTuple):
    """A language model over a transcriber's tokens, and how it is combined with the frames:

        score(y) = log p(y | x) + weight log p(y) + bonus |y|

    The language model's end has the id of the blank. `beams` prefixes are searched.
    """

    model: LanguageModel
    weight: float = 0.5
    bonus: float = 0.0
    beams: int = BEAMS


def letter_ngrams(texts: Iterable[str], tokenizer: Tokenizer, order: int = 5) -> KneserNey:
    """Count Kneser-Ney n-grams of texts, tokenized by a transcriber's tokenizer. Every text is followed by its end,
    which has the id of the blank."""
    end = tokenizer.vocabulary
    ids = tokenizer.encode_batch([text for text in texts if text.strip()])
    sequences = [[*(id for id in text_ids if id != tokenizer.end), end] for text_ids in ids]
    if not sequences:
        raise UserError("there is no text to count n-grams in; give a file with one text per line")
    return fit_kneser_ney(sequences, end + 1, order)


class SteppedModel:
    """log p(letter | prefix) from a language model that generates letters, starting after a newline. The state of
    each prefix is computed from that of the prefix before it."""

    def __init__(self, task: Any, tokenizer: Tokenizer):
        begun = task.steps(ModelInput("\n"))
        model_ids = {begun.tokenizer.piece(id): id for id in reversed(range(begun.tokenizer.vocabulary))}
        ids = [model_ids.get(tokenizer.piece(id)) for id in range(tokenizer.vocabulary)]
        if begun.tokenizer.unit != "character" or tokenizer.unit != "character":
            raise UserError(
                f"the language model and the transcriber must both use characters, but they use {begun.tokenizer.unit}s"
                f" and {tokenizer.unit}s; train both with text.tokenizer=character, or give a text file to count"
                " n-grams in"
            )
        self.task, self.begun = task, begun
        self.ids = np.array([-1 if id is None else id for id in [*ids, model_ids.get("\n", begun.end)]])
        self.kept: dict[tuple[int, ...], tuple[np.ndarray, Any]] = {}

    def score(self, prefix: Sequence[int]) -> np.ndarray:
        log_probs, _ = self.after(tuple(prefix))
        return np.where(self.ids >= 0, log_probs[self.ids], UNKNOWN)

    def after(self, prefix: tuple[int, ...]) -> tuple[np.ndarray, Any]:
        """Return log p of the next letter, and the state. Unknown letters are skipped."""
        if prefix not in self.kept:
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            previous = self.kept.get(prefix[:-1]) if prefix else None
            ids = [int(self.ids[token]) for token in (prefix[-1:] if previous else prefix) if self.ids[token] >= 0]
            start = [] if previous else self.begun.start[0].tolist()
            self.kept[prefix] = (
                previous if previous and not ids else self.stepped([*start, *ids], previous[1] if previous else None)
            )
        return self.kept[prefix]

    @torch.no_grad()
    def stepped(self, ids: list[int], state: Any) -> tuple[np.ndarray, Any]:
        stepper = self.begun.stepper
        with evaluating([self.task]):
            tokens = torch.tensor([ids], device=self.begun.start.device)
            log_probs, state = prefill(stepper, tokens, None, stepper.initial_state(1) if state is None else state)
        return log_probs[0].double().cpu().numpy(), state
