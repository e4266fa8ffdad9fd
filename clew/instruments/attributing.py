"""The instrument `attribution`: which tokens of a text, or what of a picture or a sound, a score of the model rests on."""

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
from clew.instruments.subject import Subject
from clew.tasks.explaining import Explained
from clew.tasks.offers import Given

ROUGH = 0.05
"""The share of what is to be told from which a gap is spoken of."""
STRONGEST = 0.995
"""The share of a picture's numbers that are not stronger than the strongest colour: a few would leave all others pale."""
MOST_LISTED = 40
"""Places of an input that are listed."""


class AttributionOptions(TextOptions):
    """Which score, and how what it rests on is told."""

    method: Literal["integrated_gradients", "input_x_gradient", "occlusion"] = Field(
        "integrated_gradients", description="how what a score rests on is told"
    )
    of: str | None = Field(None, description="the class, tag or token whose score it is; the likeliest where not given")
    second: str | None = Field(None, description="the other text, of a classifier that judges two together")
    place: int | None = Field(None, ge=1, description="the word that is tagged, the token of the target or the mask, from 1")
    baseline: Literal["zero", "mean", "mask"] | None = Field(
        None,
        description="what says nothing: vectors of the mask or the unknown token, where there is one, or zero vectors; "
        "of a picture or a sound the mean over its places",
    )
    steps: int = Field(50, ge=1, le=2000, description="of integrated gradients: more come nearer to a sum that is complete")
    occlude: Literal["replace", "remove"] = Field("replace", description="of occlusion: a token is replaced, or taken out")


def attribute(explained: Explained, options: AttributionOptions) -> Attribution:
    x = explained.vectors()
    if options.method == "input_x_gradient":
        return input_x_gradient(explained.of_vectors, x)
    if options.method == "occlusion" and options.occlude == "remove":
        whole = float(explained.of_vectors(x[None])[0])
        return Attribution(torch.tensor([whole - score for score in explained.without_each()]), whole)
    baseline = baseline_of(explained, x, options.baseline)
    if options.method == "occlusion":
        return occlusion(explained.of_vectors, x, baseline, None if explained.canvas is None else explained.canvas.cells)
    return integrated_gradients(explained.of_vectors, x, baseline, options.steps)


def baseline_of(explained: Explained, x: Tensor, asked: str | None) -> Tensor:
    """What says nothing, in the shape of what is explained by."""
    if asked == "mean" or (asked is None and explained.canvas is not None):
        return x.flatten(0, -2).mean(0).expand_as(x)
    if asked == "zero" or (asked is None and explained.why_irreplaceable() is not None):
        return torch.zeros_like(x)
    return explained.replaced()


def explain(subject: Subject, given: Given, of: str | None = None, place: int | None = None) -> Explained:
    """The score that is asked for: `of` is a class, a tag or a token; `place` a word of a tagger, a token of a target, or a mask."""
    if given.target is not None and not subject.has("own_target"):
        raise UserError(f"{subject.name} writes no target; leave it out")
    if subject.pairs is not None and (given.second is not None) != subject.pairs:
        need = "two texts together; give second= too" if given.second is None else "one text; leave second= out"
        raise UserError(f"{subject.name} reads {need}")
    if given.target is None and subject.has("own_target"):
        given = given._replace(target=subject.offers.own_target(given, subject.decoding))
    return subject.offers.explains(given, of, place)


def look_at_attribution(subjects: Sequence[Subject], options: AttributionOptions) -> View:
    subject = subjects[0]
    with evaluating([subject.module]):
        given = Given(options.text, options.target, options.into, options.second)
        explained = explain(subject, given, options.of, options.place)
        found = attribute(explained, options)
    values = by_place(explained, found).float().cpu().tolist()
    method = options.method.replace("_", " ").replace(" x ", " times ")
    about = f"{explained.what}: {found.score:.4f}; {method}"
    if found.baseline is not None and found.gap is not None:
        about += f" from {found.baseline:.4f}; they add up to {sum(values):.4f}, off by {found.gap:+.2g} in {options.steps} steps"
    facts = {
        "what": explained.what,
        "tokens": list(explained.tokens),
        "values": values,
        "score": found.score,
        "baseline_score": found.baseline,
        "gap": found.gap,
        "method": options.method,
    }
    if (over := map_over(explained, found)) is not None:
        facts["map"] = over.values.tolist()
    parts: list[Part] = [*([on_text(explained, values)] if over is None else [over]), table_of(explained, values)]
    if found.gap is not None and abs(found.gap) > ROUGH * max(abs(found.score - (found.baseline or 0.0)), 1e-6):
        parts.append(Note("The sum is far from complete: the score jumps somewhere on the way; take more steps, or another baseline."))
    return View("Attribution", parts, about, facts)


def by_place(explained: Explained, found: Attribution) -> Tensor:
    """What each place has to do with the score (places,); of an input the sum over what belongs to it."""
    canvas = explained.canvas
    return found.values if canvas is None or found.entries is None else canvas.by_place(found.entries)


def map_over(explained: Explained, found: Attribution) -> Heatmap | None:
    """A picture's or a sound's attribution, laid over it; what was occluded together has one value."""
    canvas = explained.canvas
    if canvas is None:
        return None
    is_fine = found.entries is not None
    over = canvas.spread(found.entries) if found.entries is not None else found.values.reshape(canvas.grid)
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
    """Every place of a text; of an input those that count most, the first first."""
    rows = [(place, token, value) for place, (token, value) in enumerate(zip(explained.tokens, values, strict=True), start=1)]
    told = f"attribution ({explained.unit})" if explained.unit else "attribution"
    if explained.canvas is None:
        return Table(("place", explained.places.unit, told), rows)
    header = ("number", explained.places.unit, told)
    most = sorted(rows, key=lambda row: -abs(row[2]))[:MOST_LISTED]
    return Table(header, most, f"The {explained.places.units} that count most" if len(most) < len(rows) else "")


ATTRIBUTION = Instrument(
    "what a score rests on: tokens of a text, pixels of a picture, bands and frames of a sound",
    AttributionOptions,
    look_at_attribution,
    needs=("explains",),
    quick=False,
)
