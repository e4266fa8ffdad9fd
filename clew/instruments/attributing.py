"""The instrument `attribution`: which tokens of a text, or parts of a picture or a sound, contribute to a score of the
model."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.drawing.views import ColouredText, Heatmap, Note, Part, Table, View
from clew.inspection.attribution import Attribution, input_x_gradient, integrated_gradients, occlusion
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import ModelInput
from clew.tasks.uses.explaining import Explained

ROUGH = 0.05
"""The smallest gap that is reported, as a share of the score's difference from the baseline."""
STRONGEST = 0.995
"""The quantile of a picture's values that gets the strongest colour. With the maximum, a few outliers would make all
others pale."""
MOST_LISTED = 40
"""The maximum number of places that are listed."""


class AttributionOptions(TextOptions):
    """The score to explain, and the method."""

    method: Literal["integrated_gradients", "input_x_gradient", "occlusion"] = Field(
        "integrated_gradients", description="the method of attribution"
    )
    of: str | None = Field(
        None, description="the class, tag or token whose score is explained; the most likely by default"
    )
    second: str | None = Field(None, description="the second text, for a classifier of text pairs")
    place: int | None = Field(
        None, ge=1, description="the word that is tagged, the token of the target or the mask, from 1"
    )
    baseline: Literal["zero", "mean", "mask"] | None = Field(
        None,
        description=(
            "the uninformative input: vectors of the mask or unknown token, or zero vectors if there is none; "
            "for a picture or a sound the mean over its places"
        ),
    )
    steps: int = Field(
        50, ge=1, le=2000, description="steps of integrated gradients; with more steps the sum is more complete"
    )
    occlude: Literal["replace", "remove"] = Field(
        "replace", description="for occlusion: whether a token is replaced or removed"
    )


def attribute(explained: Explained, options: AttributionOptions) -> Attribution:
    x = explained.vectors()
    if options.method == "input_x_gradient":
        return input_x_gradient(explained.of_vectors, x)
    if options.method == "occlusion" and options.occlude == "remove":
        whole = float(explained.of_vectors(x[None])[0])
        return Attribution(torch.tensor([whole - score for score in explained.without_each()]), whole)
    baseline = baseline_of(explained, x, options.baseline)
    if options.method == "occlusion":
        return occlusion(
            explained.of_vectors, x, baseline, None if explained.canvas is None else explained.canvas.cells
        )
    return integrated_gradients(explained.of_vectors, x, baseline, options.steps)


def baseline_of(explained: Explained, x: Tensor, kind: str | None) -> Tensor:
    """Return the uninformative baseline, in the shape of x."""
    if kind == "mean" or (kind is None and explained.canvas is not None):
        return x.flatten(0, -2).mean(0).expand_as(x)
    if kind == "zero" or (kind is None and explained.why_irreplaceable() is not None):
        return torch.zeros_like(x)
    # Not zeros: a norm scales even the smallest vector to full length, so the score jumps at zero, and no number of
    # steps is enough.
    return explained.replaced()


def explain(subject: Subject, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
    """Return the score to explain: `of` is a class, tag or token; `place` is a tagged word, a token of the target, or a
    mask."""
    if model_input.target is not None and not subject.has("own_target"):
        raise UserError(f"{subject.name} writes no target; leave target= out")
    if subject.pairs is not None and (model_input.second is not None) != subject.pairs:
        need = "two texts together; give second= too" if model_input.second is None else "one text; leave second= out"
        raise UserError(f"{subject.name} reads {need}")
    if model_input.target is None and subject.has("own_target"):
        model_input = model_input._replace(target=subject.offers.own_target(model_input, subject.decoding))
    return subject.offers.explains(model_input, of, place)


def look_at_attribution(subjects: Sequence[Subject], options: AttributionOptions) -> View:
    subject = subjects[0]
    with evaluating([subject.module]):
        model_input = ModelInput(options.text, options.target, options.into, options.second)
        explained = explain(subject, model_input, options.of, options.place)
        attribution = attribute(explained, options)
    values = by_place(explained, attribution).float().cpu().tolist()
    method = options.method.replace("_", " ").replace(" x ", " times ")
    about = f"{explained.what}: {attribution.score:.4f}; {method}"
    if attribution.baseline is not None and attribution.gap is not None:
        about += (
            f" from {attribution.baseline:.4f}; they sum to {sum(values):.4f}, with a gap of {attribution.gap:+.2g} in"
            f" {options.steps} steps"
        )
    facts = {
        "what": explained.what,
        "tokens": list(explained.tokens),
        "values": values,
        "score": attribution.score,
        "baseline_score": attribution.baseline,
        "gap": attribution.gap,
        "method": options.method,
    }
    if (over := map_over(explained, attribution)) is not None:
        facts["map"] = over.values.tolist()
    parts: list[Part] = [*([on_text(explained, values)] if over is None else [over]), table_of(explained, values)]
    if attribution.gap is not None and abs(attribution.gap) > ROUGH * max(
        abs(attribution.score - (attribution.baseline or 0.0)), 1e-6
    ):
        parts.append(
            Note(
                "The sum is far from complete: the score jumps somewhere between the baseline and the input. Use more"
                " steps or another baseline."
            )
        )
    return View("Attribution", parts, about, facts)


def by_place(explained: Explained, attribution: Attribution) -> Tensor:
    """Return the attribution of each place (places,); for pictures and sounds, the sum over the values at the place."""
    canvas = explained.canvas
    return attribution.values if canvas is None or attribution.entries is None else canvas.by_place(attribution.entries)


def map_over(explained: Explained, attribution: Attribution) -> Heatmap | None:
    """Draw the attribution over the picture or sound. A region that was occluded as a whole has one value."""
    canvas = explained.canvas
    if canvas is None:
        return None
    is_fine = attribution.entries is not None
    over = (
        canvas.spread(attribution.entries)
        if attribution.entries is not None
        else attribution.values.reshape(canvas.grid)
    )
    values = over.float().cpu().numpy()
    high = float(np.quantile(np.abs(values), STRONGEST)) or float(np.abs(values).max()) or 1.0
    names = (canvas.rows, canvas.columns) if is_fine else ((), explained.places.names if canvas.grid[0] == 1 else ())
    label = scale_of(explained.unit)
    axes = (canvas.row_label if is_fine or canvas.grid[0] > 1 else "", canvas.column_label)
    return Heatmap(values, *names, "", *axes, -high, high, diverging=True, label=label, backdrop=canvas.backdrop)


def on_text(explained: Explained, values: Sequence[float]) -> ColouredText:
    high = max(map(abs, values), default=0.0) or 1.0
    notes = [f"{value:+.4g}" for value in values]
    joined, label = explained.is_by_character, scale_of(explained.unit)
    return ColouredText(explained.tokens, values, "", label, -high, high, diverging=True, joined=joined, notes=notes)


def scale_of(unit: str) -> str:
    return f"{unit + ': ' if unit else ''}against (-), for (+)"


def table_of(explained: Explained, values: Sequence[float]) -> Table:
    """List every place of a text, or for other inputs the strongest places, strongest first."""
    rows = [
        (place, token, value)
        for place, (token, value) in enumerate(zip(explained.tokens, values, strict=True), start=1)
    ]
    heading = f"attribution ({explained.unit})" if explained.unit else "attribution"
    if explained.canvas is None:
        return Table(("place", explained.places.unit, heading), rows)
    header = ("number", explained.places.unit, heading)
    most = sorted(rows, key=lambda row: -abs(row[2]))[:MOST_LISTED]
    return Table(header, most, f"The {explained.places.units} that contribute most" if len(most) < len(rows) else "")


ATTRIBUTION = Instrument(
    "which inputs a score depends on: tokens of a text, pixels of a picture, bands and frames of a sound",
    AttributionOptions,
    look_at_attribution,
    needs=("explains",),
    quick=False,
)
