"""The instrument `attribution`: which tokens of a text a score of the model rests on."""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.drawing.views import ColouredText, Note, Part, Table, View
from clew.inspection.attribution import Attribution, input_x_gradient, integrated_gradients, occlusion
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.subject import Subject
from clew.tasks.explaining import Explained
from clew.tasks.offers import Given

ROUGH = 0.05
"""The share of what is to be told from which a gap is spoken of."""


class AttributionOptions(TextOptions):
    """Which score, and how what it rests on is told."""

    method: Literal["integrated_gradients", "input_x_gradient", "occlusion"] = Field(
        "integrated_gradients", description="how what a score rests on is told"
    )
    of: str | None = Field(None, description="the class, tag or token whose score it is; the likeliest where not given")
    second: str | None = Field(None, description="the other text, of a classifier that judges two together")
    place: int | None = Field(None, ge=1, description="the word that is tagged, the token of the target or the mask, from 1")
    baseline: Literal["zero", "mask"] | None = Field(
        None, description="what says nothing: vectors of the mask or the unknown token, where there is one, or zero vectors"
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
    is_zero = options.baseline == "zero" or (options.baseline is None and explained.why_irreplaceable() is not None)
    baseline = torch.zeros_like(x) if is_zero else explained.replaced()
    if options.method == "occlusion":
        return occlusion(explained.of_vectors, x, baseline)
    return integrated_gradients(explained.of_vectors, x, baseline, options.steps)


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
    values = found.values.float().cpu().tolist()
    high = max(map(abs, values), default=0.0) or 1.0
    notes = [f"{value:+.4g}" for value in values]
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
    rows = [(place, token, value) for place, (token, value) in enumerate(zip(explained.tokens, values, strict=True), start=1)]
    joined, unit = explained.is_by_character, explained.unit
    parts: list[Part] = [
        ColouredText(
            explained.tokens,
            values,
            "",
            f"{unit + ': ' if unit else ''}against (-), for (+)",
            -high,
            high,
            diverging=True,
            joined=joined,
            notes=notes,
        ),
        Table(("place", "token", f"attribution ({unit})" if unit else "attribution"), rows),
    ]
    if found.gap is not None and abs(found.gap) > ROUGH * max(abs(found.score - (found.baseline or 0.0)), 1e-6):
        parts.append(Note("The sum is far from complete: the score jumps somewhere on the way; take more steps, or another baseline."))
    return View("Attribution", parts, about, facts)


ATTRIBUTION = Instrument(
    "which tokens a score rests on: a class, a tag, the next token, a translation's",
    AttributionOptions,
    look_at_attribution,
    needs=("explains",),
    quick=False,
)
