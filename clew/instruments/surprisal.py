"""Surprisal: how many bits each token of a text tells a model that has read the rest.

    surprisal(w_t) = -log2 p(w_t | w_1 .. w_{t-1})           a language model, or what a translator writes, given its source
    surprisal(w_t) = -log2 p(w_t | all the others)           a masked model, each token masked in its turn

The second sums to the pseudo-log-likelihood of Salazar et al. (2020), which is no probability of the text: each token is told by both
sides. A model that reads both ways has a surprisal from each.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from clew.core.errors import UserError, counted
from clew.core.modes import evaluating
from clew.drawing.views import ColouredText, Part, Table, View
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subject import Subject
from clew.tasks.offers import Predicted, Reading

CHUNK = 256
"""Places that have a score for every token of the vocabulary at a time."""
UNITS = {"character": "characters", "word": "words", "subword": "tokens"}


class Surprisal(NamedTuple):
    """Of every token that is predicted: its place in what is read or written, its bits, and what was thought likeliest there."""

    tokens: tuple[str, ...]
    places: tuple[int, ...]
    bits: tuple[float, ...]
    best: tuple[str, ...]
    best_probabilities: tuple[float, ...]
    name: str = ""
    unit: str = "subword"
    pseudo: bool = False
    """Each token is told by both sides of it."""

    @property
    def total(self) -> float:
        return math.fsum(self.bits)

    @property
    def mean(self) -> float:
        return self.total / len(self.bits) if self.bits else 0.0

    @property
    def perplexity(self) -> float:
        """2^(mean bits)."""
        return 2**self.mean if self.mean < 1000 else math.inf


def bits_of(log_probs: Tensor, ids: Tensor) -> Tensor:
    """-log2 of the probability of each id: log_probs (places, vocabulary) in nats, ids (places,)."""
    return -log_probs.gather(-1, ids[:, None])[:, 0] / math.log(2)


def surprisals(reading: Reading) -> list[Surprisal]:
    """One; of a model that reads both ways, what the tokens before tell of each and what those after it do."""
    with evaluating([reading.module]):
        return [judged(predicted) for predicted in predictions(reading)]


def predictions(reading: Reading) -> list[Predicted]:
    model: Any = reading.model
    return model.predicts(reading)


def judged(predicted: Predicted) -> Surprisal:
    """Only some places have scores for the vocabulary at a time."""
    bits: list[float] = []
    best: list[int] = []
    probabilities: list[float] = []
    for start in range(0, len(predicted.ids), CHUNK):
        some = slice(start, start + CHUNK)
        log_probs = predicted.log_probs(some)
        likeliest = log_probs[:, : predicted.tokenizer.vocabulary].max(-1)
        bits += bits_of(log_probs, predicted.ids[some]).tolist()
        best += likeliest.indices.tolist()
        probabilities += likeliest.values.exp().tolist()
    pieces = tuple(map(predicted.tokenizer.piece, best))
    return Surprisal(
        predicted.tokens,
        tuple(predicted.places),
        tuple(bits),
        pieces,
        tuple(probabilities),
        predicted.name,
        predicted.tokenizer.unit,
        predicted.pseudo,
    )


def look_at_surprisal(subjects: Sequence[Subject], options: TextOptions) -> View:
    reading = read(subjects[0], options.text, options.target, into=options.into)
    found = surprisals(reading)
    if not found[0].bits:
        raise UserError("a text needs at least 2 tokens, one to read and one to predict; this one has 1")
    high = max((bits for one in found for bits in one.bits), default=1.0)
    parts: list[Part] = []
    for one in found:
        title = f"Surprisal {one.name}" if one.name else ""
        parts += [coloured(one, title, high), tabled(one)]
    about = "; ".join(
        f"{one.total:.1f} bits in {len(one.bits)} {UNITS[one.unit]}{' ' + one.name if one.name else ''}, {one.mean:.2f} each, "
        f"{'pseudo-perplexity' if one.pseudo else 'perplexity'} {one.perplexity:.4g}"
        for one in found
    )
    if unknown := reading.num_unknown(reading.written_ids or reading.ids):
        about += f"; {counted(unknown, 'token')} unknown to the model, with the bits of any that is"
    return View("Surprisal", parts, about, facts_of(found))


def coloured(one: Surprisal, title: str, high: float) -> ColouredText:
    """All tokens; those that were given and not predicted have no bits."""
    bits, notes = [0.0] * len(one.tokens), ["given, not predicted"] * len(one.tokens)
    for place, value, best, probability in zip(one.places, one.bits, one.best, one.best_probabilities, strict=True):
        bits[place] = value
        notes[place] = f"{value:.2f} bits, p {2**-value:.3g}; likeliest {best!r}, p {probability:.2f}"
    return ColouredText(one.tokens, bits, title, "bits", 0.0, high, joined=one.unit == "character", notes=notes)


def tabled(one: Surprisal) -> Table:
    rows = [
        (place + 1, one.tokens[place], round(bits, 3), best, round(probability, 4))
        for place, bits, best, probability in zip(one.places, one.bits, one.best, one.best_probabilities, strict=True)
    ]
    return Table(("place", "token", "surprisal (bits)", "likeliest", "its p"), rows)


def facts_of(found: Sequence[Surprisal]) -> dict[str, Any]:
    facts = [
        {
            "tokens": list(one.tokens),
            "places": list(one.places),
            "bits": list(one.bits),
            "likeliest": list(one.best),
            "total_bits": one.total,
            "mean_bits": one.mean,
            "perplexity": one.perplexity if math.isfinite(one.perplexity) else None,
            "pseudo": one.pseudo,
        }
        for one in found
    ]
    return facts[0] if len(facts) == 1 else {"forward": facts[0], "backward": facts[1]}


SURPRISAL = Instrument("how many bits each token tells the model", TextOptions, look_at_surprisal, needs=("predicts",))
