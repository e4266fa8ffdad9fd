"""Word alignment by attention: the source word that a translator looked at for each word it wrote, and how monotone the
alignment is.

    crossing = share of the pairs of written words t < u whose sources are in the opposite order, a(t) > a(u)

0 is a monotone alignment, 1 a reversed one. It is Kendall's distance, except that pairs with the same source word do
not count as crossing. a(t) is the source word with the most attention.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from clew.drawing.views import Heatmap, Part, Table, View
from clew.inspection.heads import CROSS, layers_with_heads
from clew.instruments.instrument import Choices, Instrument, TextOptions
from clew.instruments.subjects.subject import Subject
from clew.runs.asking import is_empty
from clew.tasks.offers import ModelInput
from clew.tasks.shared.alignment import Alignment
from clew.tasks.shared.reading import no_text


class AlignmentOptions(TextOptions):
    """The layer whose attention is shown."""

    layer: int | None = Field(
        None,
        description="one of the decoder's layers that look at the source, from 1 or -1; the last but one by default",
    )


def crossing(places: Sequence[int]) -> float:
    """Return the share of pairs in the opposite order; 0 if there are no pairs."""
    order = np.asarray(places)
    pairs = len(order) * (len(order) - 1) / 2
    return float(np.triu(order[:, None] > order[None, :], 1).sum() / pairs) if pairs else 0.0


def look_at_alignment(subjects: Sequence[Subject], options: AlignmentOptions) -> View:
    subject = subjects[0]
    if is_empty(options.text):
        raise no_text()
    model_input = ModelInput(options.text, options.target, options.into)
    target = options.target if options.target is not None else subject.offers.own_target(model_input, subject.decoding)
    alignment: Alignment = subject.offers.aligns(model_input._replace(target=target), options.layer)
    weights = alignment.by_word().float().numpy()
    before, after = (len(marks) for marks in subject.offers.around(options.into))
    own = weights[:-1, before : weights.shape[1] - after]  # without language tokens and end tokens
    places = (before + own.argmax(1)).tolist() if own.size else []
    rows = [
        (word, alignment.source.words[place], round(100 * float(weights[number, place]), 1))
        for number, (word, place) in enumerate(zip(alignment.target.words, places, strict=False))
    ]
    share = crossing(places)
    kind = "monotone" if share == 0 else f"{share:.1%} of the pairs of words cross"
    facts = {
        "source": list(alignment.source.words),
        "target": list(alignment.target.words),
        "weights": np.round(weights, 5).tolist(),
        "looked_at": places,
        "crossing": share,
    }
    parts: list[Part] = [
        Heatmap(
            weights,
            alignment.target.words,
            alignment.source.words,
            "",
            "written",
            "read",
            0.0,
            1.0,
            label="weight",
            unit="%",
        ),
        Table(("written", "looked at most", "weight (%)"), rows),
    ]
    return View("Alignment", parts, f"{target!r} for {str(options.text)!r}: {kind}", facts)


def layer_choices(subject: Subject) -> Choices:
    """Return the numbers of the decoder's layers that look at the source."""
    return Choices(
        ("layer",),
        tuple(
            (layer.number,) for layer in layers_with_heads(subject.module) if layer.kind == CROSS and layer.num_heads
        ),
    )


ALIGNMENT = Instrument(
    "the source word that the model looks at for each written word",
    AlignmentOptions,
    look_at_alignment,
    needs=("aligns",),
    choices=layer_choices,
)
