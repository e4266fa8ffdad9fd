"""Baselines of language models: n-grams over the very tokens that the model reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clew.baselines.beside import Baseline, Train
from clew.baselines.kneser_ney import fit_kneser_ney
from clew.data.encoded import TokenFile
from clew.data.text_files import TextSource
from clew.metrics.measures import Measured

MOST_TOKENS = 5_000_000
"""Of a text that n-grams are counted in."""
MOST_TEXT = 10 * MOST_TOKENS
"""Characters of a text that is worth encoding to see how many tokens it has."""
ORDER = 5


@dataclass(frozen=True)
class KnownText:
    """A text as n-grams read it: its tokens, which may have to be encoded first, as a task with so large a vocabulary predicts them."""

    source: TextSource
    tokens: Callable[[], TokenFile]
    vocabulary: int


def text_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """Interpolated n-grams over the very tokens that the model reads."""
    known: KnownText = train()
    if is_too_long(known.source) or len(text := known.tokens()) > MOST_TOKENS:
        return
    model = fit_kneser_ney(text.sequences, known.vocabulary, ORDER)

    def measure(part: KnownText) -> Measured:
        """Every token but the first of a sequence, which nothing predicts."""
        found = model.likelihood(part.tokens().sequences, firsts=False)
        values = {"baseline_kneser_ney": found.perplexity, "baseline_kneser_ney_loss": found.loss}
        return Measured(values, f"loss {found.loss:.4f} and perplexity {found.perplexity:.2f}")

    yield Baseline(f"{ORDER}-grams (Kneser-Ney) have", measure)


def is_too_long(text: TextSource) -> bool:
    """Whether a text would have too many tokens; it is then not encoded for nothing."""
    size = 0
    for piece in text:
        size += len(piece)
        if size > MOST_TEXT:
            return True
    return False
