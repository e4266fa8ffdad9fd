"""Baselines of language models: n-grams over the same tokens that the model reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clew.baselines.baseline import Baseline, Train
from clew.baselines.kneser_ney import fit_kneser_ney
from clew.data.caching.encoded import TokenFile
from clew.data.files.text_files import TextSource
from clew.metrics.measures import Measured

MOST_TOKENS = 5_000_000
"""The most tokens of a text in which n-grams are counted."""
MOST_TEXT = 10 * MOST_TOKENS
"""The most characters of a text that is encoded to count its tokens."""
ORDER = 5


@dataclass(frozen=True)
class KnownText:
    """A text in the form of n-grams: its tokens, encoded when needed, and the number of tokens that the task
    predicts."""

    source: TextSource
    tokens: Callable[[], TokenFile]
    vocabulary: int


def text_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """Interpolated n-grams over the same tokens that the model reads."""
    known: KnownText = train()
    if is_too_long(known.source) or len(text := known.tokens()) > MOST_TOKENS:
        return
    model = fit_kneser_ney(text.sequences, known.vocabulary, ORDER)

    def measure(part: KnownText) -> Measured:
        """Scores every token but the first of each sequence, which a language model does not predict."""
        likelihood = model.likelihood(part.tokens().sequences, firsts=False)
        values = {"baseline_kneser_ney": likelihood.perplexity, "baseline_kneser_ney_loss": likelihood.loss}
        return Measured(values, f"loss {likelihood.loss:.4f} and perplexity {likelihood.perplexity:.2f}")

    yield Baseline(f"{ORDER}-grams (Kneser-Ney) have", measure)


def is_too_long(text: TextSource) -> bool:
    """Whether a text is so long that it has too many tokens in any case, so it need not be encoded."""
    size = 0
    for piece in text:
        size += len(piece)
        if size > MOST_TEXT:
            return True
    return False
