"""Language models beside a transcriber's frames: n-grams of its own letters from a text, or another run that writes
letters."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from clew.baselines.kneser_ney import KneserNey, fit_kneser_ney
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.decoding.ctc import LanguageModel
from clew.decoding.stepper import prefill
from clew.tasks.offers import Given
from clew.text.tokenizer import Tokenizer

BEAMS = 16
"""Prefixes of a search with a language model, where the run has none."""
UNKNOWN = -30.0
"""log p of a letter that a language model does not know."""
MOST_KEPT = 4096
"""Prefixes whose states are kept."""


class Spelling(NamedTuple):
    """A language model over a transcriber's tokens, whose place of the blank has the end: score(y) = log p(y | x) +
    weight log p(y) + bonus |y|. `beams` prefixes are searched."""

    model: LanguageModel
    weight: float = 0.5
    bonus: float = 0.0
    beams: int = BEAMS


def letter_ngrams(texts: Iterable[str], tokenizer: Tokenizer, order: int = 5) -> KneserNey:
    """Kneser-Ney n-grams of texts cut into a transcriber's tokens; behind each text stands its end, which has the id of
    the blank."""
    end = tokenizer.vocabulary
    ids = tokenizer.encode_batch([text for text in texts if text.strip()])
    sequences = [[*(id for id in each if id != tokenizer.end), end] for each in ids]
    if not sequences:
        raise UserError("there is no text to count n-grams in; give a file with a text on every line")
    return fit_kneser_ney(sequences, end + 1, order)


class SteppedModel:
    """log p(letter | prefix) by a language model that writes letter by letter, behind a newline. Each prefix goes on
    from the state of the one before it."""

    def __init__(self, task: Any, tokenizer: Tokenizer):
        begun = task.steps(Given("\n"))
        theirs = {begun.tokenizer.piece(id): id for id in reversed(range(begun.tokenizer.vocabulary))}
        known = [theirs.get(tokenizer.piece(id)) for id in range(tokenizer.vocabulary)]
        if begun.tokenizer.unit != "character" or tokenizer.unit != "character":
            raise UserError(
                f"a language model helps by letters, and reads {begun.tokenizer.unit}s where the transcriber writes"
                f" {tokenizer.unit}s; train both with text.tokenizer=character, or name a text file, whose n-grams are"
                " counted"
            )
        self.task, self.begun = task, begun
        self.ids = np.array([-1 if id is None else id for id in [*known, theirs.get("\n", begun.end)]])
        self.kept: dict[tuple[int, ...], tuple[np.ndarray, Any]] = {}

    def score(self, prefix: Sequence[int]) -> np.ndarray:
        log_probs, _ = self.after(tuple(prefix))
        return np.where(self.ids >= 0, log_probs[self.ids], UNKNOWN)

    def after(self, prefix: tuple[int, ...]) -> tuple[np.ndarray, Any]:
        """log p of what comes next, and the state; a letter that is not known is passed over."""
        if prefix not in self.kept:
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            before = self.kept.get(prefix[:-1]) if prefix else None
            ids = [int(self.ids[token]) for token in (prefix[-1:] if before else prefix) if self.ids[token] >= 0]
            start = [] if before else self.begun.start[0].tolist()
            self.kept[prefix] = (
                before if before and not ids else self.stepped([*start, *ids], before[1] if before else None)
            )
        return self.kept[prefix]

    @torch.no_grad()
    def stepped(self, ids: list[int], state: Any) -> tuple[np.ndarray, Any]:
        stepper = self.begun.stepper
        with evaluating([self.task]):
            tokens = torch.tensor([ids], device=self.begun.start.device)
            log_probs, state = prefill(stepper, tokens, None, stepper.initial_state(1) if state is None else state)
        return log_probs[0].double().cpu().numpy(), state
