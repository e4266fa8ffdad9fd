"""Which word of the source a translator looked at for each word that it wrote, and how far that is from reading in order.

    crossing = share of the pairs of written words t < u whose sources stand the other way round, a(t) > a(u)

0 is an alignment without any crossing (monotone), 1 one that is turned round; it is Kendall's distance, pairs that share a source word not
counted as crossing. a(t) is the word that was looked at most.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from clew.drawing.views import Heatmap, Part, Table, View
from clew.inspection.heads import CROSS, attending_layers
from clew.instruments.instrument import Choices, Instrument, TextOptions
from clew.instruments.subject import Subject
from clew.runs.asking import says_nothing
from clew.tasks.alignment import Alignment
from clew.tasks.offers import Given
from clew.tasks.reading import no_text


class AlignmentOptions(TextOptions):
    """Whose attention is taken."""

    layer: int | None = Field(None, description="of the decoder's layers that look at the source, from 1 or from -1; the last but one")


def crossing(places: Sequence[int]) -> float:
    """The share of pairs that stand the other way round; 0 where there is no pair."""
    order = np.asarray(places)
    pairs = len(order) * (len(order) - 1) / 2
    return float(np.triu(order[:, None] > order[None, :], 1).sum() / pairs) if pairs else 0.0


def look_at_alignment(subjects: Sequence[Subject], options: AlignmentOptions) -> View:
    subject = subjects[0]
    if says_nothing(options.text):
        raise no_text()
    given = Given(options.text, options.target, options.into)
    target = options.target if options.target is not None else subject.offers.own_target(given, subject.decoding)
    found: Alignment = subject.offers.aligns(given._replace(target=target), options.layer)
    weights = found.by_word().float().numpy()
    before, after = (len(marks) for marks in subject.offers.around(options.into))
    own = weights[:-1, before : weights.shape[1] - after]  # neither what asks for a language nor the ends
    places = (before + own.argmax(1)).tolist() if own.size else []
    rows = [
        (word, found.source.words[place], round(100 * float(weights[number, place]), 1))
        for number, (word, place) in enumerate(zip(found.target.words, places, strict=False))
    ]
    share = crossing(places)
    kind = "monotone" if share == 0 else f"{share:.1%} of the pairs of words cross"
    facts = {
        "source": list(found.source.words),
        "target": list(found.target.words),
        "weights": np.round(weights, 5).tolist(),
        "looked_at": places,
        "crossing": share,
    }
    parts: list[Part] = [
        Heatmap(weights, found.target.words, found.source.words, "", "written", "read", 0.0, 1.0, label="weight", unit="%"),
        Table(("written", "looked at most", "weight (%)"), rows),
    ]
    return View("Alignment", parts, f"{target!r} for {str(options.text)!r}: {kind}", facts)


def layer_choices(subject: Subject) -> Choices:
    """The decoder's layers that look at the source, by their numbers."""
    return Choices(
        ("layer",), tuple((layer.number,) for layer in attending_layers(subject.module) if layer.kind == CROSS and layer.num_heads)
    )


ALIGNMENT = Instrument(
    "which word was looked at for each word written", AlignmentOptions, look_at_alignment, needs=("aligns",), choices=layer_choices
)
