"""Surprisal: how many bits each token of a text tells a model that has read the rest.

    surprisal(w_t) = -log2 p(w_t | w_1 .. w_{t-1})           a language model, or what a translator writes, given its source
    surprisal(w_t) = -log2 p(w_t | all the others)           a masked model, each token masked in its turn

The second sums to the pseudo-log-likelihood of Salazar et al. (2020), which is no probability of the text: each token is told by both
sides. A model that reads both ways has a surprisal from each.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError, counted
from clew.core.modes import evaluating
from clew.drawing.views import ColouredText, Part, Table, View
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import Reading, read, unknown_ids, why_unreadable
from clew.layers.embeddings import Segmented
from clew.runs.loaded import Run
from clew.sources.words import is_segmented

BATCH_TOKENS = 2**13
"""Places that are read at a time where each token is masked in its turn."""
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
    run, task, ids = reading.run, reading.run.task, torch.tensor(reading.ids)
    with evaluating([task]):
        if reading.writes:
            written = torch.tensor(reading.written_ids)
            return [judged(reading.written, range(len(written)), reading.forward()[0], task.log_probs, written, task.target)]
        pieces, tokenizer = reading.pieces, task.tokenizer
        if run.verb == "fill":
            places = [place for place, span in enumerate(reading.spans) if span is not None and reading.ids[place] != tokenizer.mask]
            if not places:
                raise UserError("every token of this text is to be guessed, and none is given that could surprise; write a word")
            return [judged(pieces, places, masked_vectors(reading, places), task.logits, ids[places], tokenizer)]
        hidden, later = reading.forward()[0], range(1, len(ids))
        if run.verb == "generate":
            return [judged(pieces, later, hidden[:-1], task.logits, ids[1:], tokenizer)]
        (ahead, back), named = hidden.chunk(2, -1), task.named(ids)

        def output(half: Tensor) -> Tensor:
            return F.linear(half, task.weight, task.output_bias)

        return [
            judged(pieces, later, ahead[:-1], output, named[1:], tokenizer)._replace(name="from the left"),
            judged(pieces, range(len(ids) - 1), back[1:], output, named[:-1], tokenizer)._replace(name="from the right"),
        ]


def masked_vectors(reading: Reading, places: Sequence[int]) -> Tensor:
    """The body's vector (places, dim) at every place, with nothing masked but that place."""
    task, found = reading.run.task, []
    tokens = torch.tensor(reading.ids, device=task.body.embedding.like.device)
    rows = max(BATCH_TOKENS // len(tokens), 1)
    for start in range(0, len(places), rows):
        some = torch.tensor(places[start : start + rows], device=tokens.device)
        masked = tokens.repeat(len(some), 1).scatter(1, some[:, None], task.tokenizer.mask)
        inputs: Any = masked
        if is_segmented(task.body):
            inputs = Segmented(masked, reading.batch.inputs.segments.expand(len(some), -1))
        hidden, _ = task.body(inputs, None)
        found.append(hidden[torch.arange(len(some), device=some.device), some])
    return torch.cat(found)


def judged(
    tokens: Sequence[str], places: Sequence[int], hidden: Tensor, output: Callable[[Tensor], Tensor], ids: Tensor, tokenizer: Any
) -> Surprisal:
    """From vectors (places, dim) and what makes scores of them; only some places have scores for the vocabulary at a time."""
    bits: list[float] = []
    best: list[int] = []
    probabilities: list[float] = []
    for some, wanted in zip(hidden.split(CHUNK), ids.split(CHUNK), strict=True):
        log_probs = output(some).float().cpu().log_softmax(-1)
        likeliest = log_probs[:, : tokenizer.vocabulary].max(-1)
        bits += bits_of(log_probs, wanted).tolist()
        best += likeliest.indices.tolist()
        probabilities += likeliest.values.exp().tolist()
    return Surprisal(tuple(tokens), tuple(places), tuple(bits), tuple(map(tokenizer.piece, best)), tuple(probabilities))


def look_at_surprisal(runs: Sequence[Run], options: TextOptions) -> View:
    reading = read(runs[0], options.text, options.target, into=options.into)
    found = surprisals(reading)
    if not found[0].bits:
        raise UserError("a text needs at least 2 tokens, one to read and one to predict; this one has 1")
    unit = (runs[0].task.target if reading.writes else runs[0].task.tokenizer).unit
    high = max((bits for one in found for bits in one.bits), default=1.0)
    parts: list[Part] = []
    for one in found:
        title = f"Surprisal {one.name}" if one.name else ""
        parts += [coloured(one, title, high, joined=unit == "character"), tabled(one)]
    masked = runs[0].verb == "fill"
    about = "; ".join(
        f"{one.total:.1f} bits in {len(one.bits)} {UNITS[unit]}{' ' + one.name if one.name else ''}, {one.mean:.2f} each, "
        f"{'pseudo-perplexity' if masked else 'perplexity'} {one.perplexity:.4g}"
        for one in found
    )
    if unknown := sum(id in unknown_ids(runs[0]) for id in (reading.written_ids if reading.writes else reading.ids)):
        about += f"; {counted(unknown, 'token')} unknown to the model, with the bits of any that is"
    return View("Surprisal", parts, about, facts_of(found, masked))


def coloured(one: Surprisal, title: str, high: float, *, joined: bool) -> ColouredText:
    """All tokens; those that were given and not predicted have no bits."""
    bits, notes = [0.0] * len(one.tokens), ["given, not predicted"] * len(one.tokens)
    for place, value, best, probability in zip(one.places, one.bits, one.best, one.best_probabilities, strict=True):
        bits[place] = value
        notes[place] = f"{value:.2f} bits, p {2**-value:.3g}; likeliest {best!r}, p {probability:.2f}"
    return ColouredText(one.tokens, bits, title, "bits", 0.0, high, joined=joined, notes=notes)


def tabled(one: Surprisal) -> Table:
    rows = [
        (place + 1, one.tokens[place], round(bits, 3), best, round(probability, 4))
        for place, bits, best, probability in zip(one.places, one.bits, one.best, one.best_probabilities, strict=True)
    ]
    return Table(("place", "token", "bits", "likeliest", "its p"), rows)


def facts_of(found: Sequence[Surprisal], masked: bool) -> dict[str, Any]:
    facts = [
        {
            "tokens": list(one.tokens),
            "places": list(one.places),
            "bits": list(one.bits),
            "likeliest": list(one.best),
            "total_bits": one.total,
            "mean_bits": one.mean,
            "perplexity": one.perplexity if math.isfinite(one.perplexity) else None,
            "pseudo": masked,
        }
        for one in found
    ]
    return facts[0] if len(facts) == 1 else {"forward": facts[0], "backward": facts[1]}


def why_no_surprisal(run: Run) -> str | None:
    if run.verb in ("generate", "fill", "evaluate", "translate", "parse"):
        return why_unreadable(run)
    return f"{run.folder} gives no probability to a token: its task is to {run.verb}"


SURPRISAL = Instrument("how many bits each token tells the model", TextOptions, look_at_surprisal, why_no_surprisal)
