"""The logit lens (nostalgebraist 2020): the prediction of a model if it stopped after each layer.

    p_l(. | place) = softmax(output(norm(h_l)))  h_l is the output of block l; norm and output are the model's last ones
    KL_l = sum_w p(w) log2 (p(w) / p_l(w))       bits between layer l and the model's final prediction

Lower layers are not trained to match the output layer: a high KL does not mean that a layer knows nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.modes import evaluating
from clew.drawing.letters import visible
from clew.drawing.views import Heatmap, Lines, Part, Series, Table, View
from clew.inspection.bits import divergence
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.subject import Subject
from clew.layers.blocks import block_ends
from clew.tasks.offers import Reading, TokenScores

CHUNK = 256
"""The number of places that are scored together."""


class LensResults(NamedTuple):
    """At each level (levels, places): the most likely token, its probability, the probability of the last level's most
    likely token, and the divergence from the last level in bits."""

    tokens: Tensor
    probabilities: Tensor
    final: Tensor
    divergence: Tensor


def through_lens(
    levels: Sequence[Tensor], norm: Callable[[Tensor], Tensor], logits: Callable[[Tensor], Tensor]
) -> LensResults:
    """Apply the lens to levels (places, dim), the lowest first; the last has already passed the norm. Places are scored
    in chunks."""
    pieces = zip(*(level.split(CHUNK) for level in levels), strict=True)
    return LensResults(
        *(
            torch.cat(column, 1)
            for column in zip(*(through_lens_at(some, norm, logits) for some in pieces), strict=True)
        )
    )


def through_lens_at(
    levels: Sequence[Tensor], norm: Callable[[Tensor], Tensor], logits: Callable[[Tensor], Tensor]
) -> LensResults:
    last = logits(levels[-1]).cpu().double().log_softmax(-1)  # (places, vocabulary)
    best = last.argmax(-1, keepdim=True)
    columns = []
    for number, level in enumerate(levels):
        log_probs = last if number == len(levels) - 1 else logits(norm(level)).cpu().double().log_softmax(-1)
        top = log_probs.max(-1)
        columns.append(
            (top.indices, top.values.exp(), log_probs.gather(-1, best)[:, 0].exp(), divergence(last, log_probs))
        )
    return LensResults(*(torch.stack(column) for column in zip(*columns, strict=True)))


def look_through(reading: Reading) -> tuple[list[str], LensResults]:
    """Return the names of the levels with the same width as the last, and the lens at each."""
    scores = scores_of(reading)
    with evaluating([reading.module]):
        levels, body = scores.levels(), scores.body
        ends = block_ends(body, len(levels))
        names = ["embedding", *(f"layer {number}" for number in range(1, len(ends)))]
        levels_shown = [
            (name, levels[end][0])
            for name, end in zip(names, ends, strict=True)
            if levels[end].shape[-1] == levels[-1].shape[-1]
        ]
        return [name for name, _ in levels_shown], through_lens(
            [level for _, level in levels_shown], body.norm, scores.output
        )


def scores_of(reading: Reading) -> TokenScores:
    model: Any = reading.model
    return model.scores_tokens(reading)


SAYS, FAR = "Probability of the last level's prediction", "Divergence from the last level (KL, bits)"


def look_through_lens(subjects: Sequence[Subject], options: TextOptions) -> View:
    reading = read(subjects[0], options.text, options.target, into=options.into)
    names, lens = look_through(reading)
    tokenizer = scores_of(reading).tokenizer
    # The tokens that are read; the predictions are for the token after each.
    places = reading.read_by_decoder if reading.writes else reading.pieces
    tokens = [[piece_name(tokenizer, id) for id in row] for row in lens.tokens.tolist()]
    probabilities = lens.probabilities.tolist()
    rows = [
        (
            place + 1,
            piece,
            *(f"{visible(tokens[level][place])} {probabilities[level][place]:.2f}" for level in range(len(names))),
        )
        for place, piece in enumerate(places)
    ]
    mean = lens.divergence.mean(1).tolist()
    settled = settling(lens.tokens)
    about = f"on average, the most likely token is the same as at the last level from {names[round(settled)]} on"
    # Without the embedding, whose divergence would dwarf the others.
    above = lens.divergence[1 if len(names) > 2 else 0 :]
    high = float(above.max()) or 1.0
    parts: list[Part] = [
        Heatmap(
            lens.final.numpy(),
            names,
            places,
            SAYS,
            "level",
            "after",
            0.0,
            1.0,
            label="probability",
            unit="%",
            keyed="rows",
        ),
        Heatmap(
            lens.divergence.numpy(),
            names,
            places,
            FAR,
            "level",
            "after",
            0.0,
            high,
            label="divergence",
            unit="bits",
            keyed="rows",
        ),
        Lines([Series("mean over places", list(range(len(names))), mean)], "level", "bits from the last level"),
        Table(("place", "after", *names), rows, "The most likely token at each level, and its probability"),
    ]
    facts: dict[str, Any] = {
        "levels": names,
        "after": list(places),
        "tokens": tokens,
        "probabilities": probabilities,
        "final": lens.final.tolist(),
        "divergence_bits": lens.divergence.tolist(),
        "mean_divergence_bits": mean,
        "settled": settled,
    }
    return View("Logit lens", parts, about, facts)


def settling(tokens: Tensor) -> float:
    """Return the level from which on the most likely token is that of the last level, averaged over places; tokens are
    (levels, places)."""
    agrees = tokens == tokens[-1]
    stays = agrees.flip(0).int().cumprod(0).sum(0)  # how many levels at the top agree
    return float((len(tokens) - stays).double().mean())


def piece_name(tokenizer: Any, id: int) -> str:
    """Return the piece of a token. Rows of the table beyond the tokenizer's tokens have no piece."""
    return tokenizer.piece(id) if id < tokenizer.vocabulary else f"#{id}"


def why_no_lens(subject: Subject) -> str | None:
    if num_levels(subject.module.body) < 2:
        return f"{subject.name} has only one level as wide as its output layer, so there is nothing to compare"
    return None


def num_levels(body: Any) -> int:
    """Count the block ends with the same width as the last."""
    body = getattr(body, "decoder", body)
    widths = [body.embedding.dim, *(layer.dim for layer in getattr(body.layers, "layers", [body.layers]))]
    return sum(widths[end] == widths[-1] for end in block_ends(body, len(widths)))


LOGIT_LENS = Instrument(
    "the model's prediction after each layer", TextOptions, look_through_lens, ("scores_tokens",), why_no_lens
)
