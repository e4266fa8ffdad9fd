"""What a model expects to come next: the most probable tokens, the mass that all others have, and how undecided it is.

entropy = -sum_w p(w) log2 p(w)
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field
from torch import Tensor

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.drawing.views import Bars, Part, View, bar_names
from clew.inspection.bits import entropy
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.subject import Looked, Subject, subject_of
from clew.tasks.offers import Given
from clew.text.tokenizer import Tokenizer

OTHERS = "all others"


class NextOptions(TextOptions):
    """What comes after a text; at each [MASK] of it, for a masked model; after what a translator has written so far (`target`)."""

    top: int = Field(10, ge=1, le=200, description="how many of the most probable tokens are listed")
    also: tuple[str, ...] = Field((), description="tokens that are listed besides, as the vocabulary writes them")


class Likeliest(NamedTuple):
    """The most probable tokens, best first, with their ids and probabilities; the mass of all others; the entropy of all, in bits."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    outside: float
    entropy: float
    after: str = ""


class Listed(NamedTuple):
    """Tokens in the order of a list, with the probability of each, NaN where the vocabulary has no such token, and what is left."""

    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]
    outside: float


def listed(found: Likeliest, log_probs: Tensor, tokenizer: Tokenizer, also: Sequence[str]) -> Listed:
    """The most probable tokens, and those that are asked for besides."""
    wanted = [token for token in dict.fromkeys(also) if token not in found.tokens]
    ids = {tokenizer.piece(id): id for id in reversed(range(tokenizer.vocabulary))} if wanted else {}
    more = tuple(float(log_probs[ids[token]].double().exp()) if token in ids else math.nan for token in wanted)
    left = max(found.outside - sum(each for each in more if not math.isnan(each)), 0.0)
    return Listed((*found.tokens, *wanted), (*found.probabilities, *more), left)


def likeliest(log_probs: Tensor, tokenizer: Tokenizer, top: int, after: str = "") -> Likeliest:
    """Of log p (vocabulary,) in nats."""
    log_probs = log_probs.cpu().double()
    best = log_probs[: tokenizer.vocabulary].topk(min(top, tokenizer.vocabulary))
    probabilities = best.values.exp()
    ids = best.indices.tolist()
    outside = max(1.0 - probabilities.sum().item(), 0.0)
    return Likeliest(tuple(map(tokenizer.piece, ids)), tuple(ids), tuple(probabilities.tolist()), outside, entropy(log_probs).item(), after)


def expected_next(model: Looked, options: NextOptions) -> list[Likeliest]:
    """After the text; of a masked model, at each of its masks. Of a subject, a run or a task."""
    return [likeliest(one.log_probs, one.tokenizer, options.top, one.at) for one in expectations(subject_of(model), options)]


def expectations(subject: Subject, options: NextOptions) -> list[Any]:
    with evaluating([subject.module]):
        return list(subject.offers.expects(Given(options.text, options.target, options.into)))


def look_next(subjects: Sequence[Subject], options: NextOptions) -> View:
    subject = subjects[0]
    if options.target is not None and not subject.has("own_target"):
        raise UserError(f"{subject.name} writes no target; leave it out, and give the text alone")
    places = expectations(subject, options)
    found = [likeliest(one.log_probs, one.tokenizer, options.top, one.at) for one in places]
    parts: list[Part] = []
    for place, one in zip(places, found, strict=True):
        names, values, left = listed(one, place.log_probs, place.tokenizer, options.also)
        parts.append(Bars([*names, OTHERS], [*values, left], "probability", one.after, low=0.0, high=1.0))
    about = "; ".join(
        f"{one.after + ': ' if one.after else ''}entropy {one.entropy:.2f} bits, {one.outside:.1%} outside the best {len(one.tokens)}"
        for one in found
    )
    is_inside = any(one.after for one in found)
    title = "In the place of each mask" if is_inside else "Next token"
    return View(title, parts, about, {"next": [one._asdict() for one in found]})


def tokens_of_all(views: Sequence[View], options: NextOptions) -> NextOptions:
    """With the tokens that any of the views lists."""
    return options.model_copy(update={"also": tuple(name for name in bar_names(views) if name != OTHERS)})


NEXT = Instrument(
    "what the model expects next: tokens, their probabilities, entropy",
    NextOptions,
    look_next,
    needs=("expects",),
    besides=tokens_of_all,
)
