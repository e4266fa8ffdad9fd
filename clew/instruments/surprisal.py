"""Surprisal: the information of each token in bits, for a model that has read the rest.

    surprisal(w_t) = -log2 p(w_t | w_1 .. w_{t-1})           a language model, or a translator's target given its source
    surprisal(w_t) = -log2 p(w_t | all the others)           a masked model; each token is masked in turn

The second sums to the pseudo-log-likelihood of Salazar et al. (2020), which is not a probability of the text, since
each token is predicted from both sides. A bidirectional language model has one surprisal per direction.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from clew.core.errors import UserError, counted
from clew.core.modes import evaluating
from clew.drawing.views import ColouredText, Part, Table, View
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import Predicted, Reading

CHUNK = 256
"""The number of places that are scored together over the whole vocabulary."""
UNITS = {"character": "characters", "word": "words", "subword": "tokens"}


class Surprisal(NamedTuple):
    """For every predicted token: its place, its bits, and the most likely token there with its probability."""

    tokens: tuple[str, ...]
    places: tuple[int, ...]
    bits: tuple[float, ...]
    best: tuple[str, ...]
    best_probabilities: tuple[float, ...]
    name: str = ""
    unit: str = "subword"
    pseudo: bool = False
    """Whether each token is predicted from both sides."""

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
    """Return -log2 p of each id, from log_probs (places, vocabulary) in nats and ids (places,)."""
    return -log_probs.gather(-1, ids[:, None])[:, 0] / math.log(2)


def surprisals(reading: Reading) -> list[Surprisal]:
    """Return one Surprisal, or for a bidirectional language model two: given the tokens before, and given the tokens
    after."""
    with evaluating([reading.module]):
        return [measure(predicted) for predicted in predictions(reading)]


def predictions(reading: Reading) -> list[Predicted]:
    model: Any = reading.model
    return model.predicts(reading)


def measure(predicted: Predicted) -> Surprisal:
    """Score predictions in chunks of places."""
    bits: list[float] = []
    best: list[int] = []
    probabilities: list[float] = []
    for start in range(0, len(predicted.ids), CHUNK):
        chunk = slice(start, start + CHUNK)
        log_probs = predicted.log_probs(chunk)
        likeliest = log_probs[:, : predicted.tokenizer.vocabulary].max(-1)
        bits += bits_of(log_probs, predicted.ids[chunk]).tolist()
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
    results = surprisals(reading)
    if not results[0].bits:
        raise UserError("a text needs at least 2 tokens, one to read and one to predict; this one has 1")
    high = max((bits for result in results for bits in result.bits), default=1.0)
    parts: list[Part] = []
    for result in results:
        title = f"Surprisal {result.name}" if result.name else ""
        parts += [colour_text(result, title, high), tabulate(result)]
    about = "; ".join(map(describe_surprisal, results))
    if unknown := reading.num_unknown(reading.written_ids or reading.ids):
        about += f"; {counted(unknown, 'token')} unknown to the model, scored as the unknown token"
    return View("Surprisal", parts, about, facts_of(results))


def describe_surprisal(result: Surprisal) -> str:
    units = f"{UNITS[result.unit]} {result.name}".rstrip()
    measure = "pseudo-perplexity" if result.pseudo else "perplexity"
    return (
        f"{result.total:.1f} bits in {len(result.bits)} {units}, {result.mean:.2f} each, {measure}"
        f" {result.perplexity:.4g}"
    )


def colour_text(result: Surprisal, title: str, high: float) -> ColouredText:
    """Draw all tokens. Tokens that were given, not predicted, have no bits."""
    bits, notes = [0.0] * len(result.tokens), ["given, not predicted"] * len(result.tokens)
    for place, value, best, probability in scored_tokens(result):
        bits[place] = value
        notes[place] = f"{value:.2f} bits, p {2**-value:.3g}; most likely {best!r}, p {probability:.2f}"
    return ColouredText(result.tokens, bits, title, "bits", 0.0, high, joined=result.unit == "character", notes=notes)


def scored_tokens(result: Surprisal) -> Iterator[tuple[int, float, str, float]]:
    return zip(result.places, result.bits, result.best, result.best_probabilities, strict=True)


def tabulate(result: Surprisal) -> Table:
    rows = [
        (place + 1, result.tokens[place], round(bits, 3), best, round(probability, 4))
        for place, bits, best, probability in scored_tokens(result)
    ]
    return Table(("place", "token", "surprisal (bits)", "most likely", "its p"), rows)


def facts_of(results: Sequence[Surprisal]) -> dict[str, Any]:
    facts = [
        {
            "tokens": list(result.tokens),
            "places": list(result.places),
            "bits": list(result.bits),
            "likeliest": list(result.best),
            "total_bits": result.total,
            "mean_bits": result.mean,
            "perplexity": result.perplexity if math.isfinite(result.perplexity) else None,
            "pseudo": result.pseudo,
        }
        for result in results
    ]
    return facts[0] if len(facts) == 1 else {"forward": facts[0], "backward": facts[1]}


SURPRISAL = Instrument("the surprisal of each token, in bits", TextOptions, look_at_surprisal, needs=("predicts",))
