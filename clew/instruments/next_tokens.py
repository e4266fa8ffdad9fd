"""The next-token distribution of a model: the most probable tokens, the mass of all others, and the entropy.

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
from clew.inspection.bits import entropy_bits
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.subjects.subject import Looked, Subject, subject_of
from clew.tasks.offers import ModelInput
from clew.text.tokenizer import Tokenizer

OTHERS = "all others"


class NextOptions(TextOptions):
    """Options: the next token of a text, of each [MASK] for a masked model, or of a translator's output so far
    (`target`)."""

    top: int = Field(10, ge=1, le=200, description="the number of most probable tokens to list")
    also: tuple[str, ...] = Field((), description="further tokens to list, as the vocabulary writes them")


class Likeliest(NamedTuple):
    """The most probable tokens, best first, with their ids and probabilities; the mass of all others; and the entropy
    of the distribution in bits."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    outside: float
    entropy: float
    after: str = ""


class Listed(NamedTuple):
    """Tokens and their probabilities, NaN if the vocabulary does not have a token, and the remaining mass."""

    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]
    outside: float


def list_tokens(distribution: Likeliest, log_probs: Tensor, tokenizer: Tokenizer, also: Sequence[str]) -> Listed:
    """List the most probable tokens, and those in `also`."""
    extra_tokens = [token for token in dict.fromkeys(also) if token not in distribution.tokens]
    ids = {tokenizer.piece(id): id for id in reversed(range(tokenizer.vocabulary))} if extra_tokens else {}
    extra = tuple(float(log_probs[ids[token]].double().exp()) if token in ids else math.nan for token in extra_tokens)
    rest = max(distribution.outside - sum(each for each in extra if not math.isnan(each)), 0.0)
    return Listed((*distribution.tokens, *extra_tokens), (*distribution.probabilities, *extra), rest)


def likeliest(log_probs: Tensor, tokenizer: Tokenizer, top: int, after: str = "") -> Likeliest:
    """Return the most probable tokens of log p (vocabulary,), in nats."""
    log_probs = log_probs.cpu().double()
    best = log_probs[: tokenizer.vocabulary].topk(min(top, tokenizer.vocabulary))
    probabilities = best.values.exp()
    ids = best.indices.tolist()
    outside = max(1.0 - probabilities.sum().item(), 0.0)
    return Likeliest(
        tuple(map(tokenizer.piece, ids)),
        tuple(ids),
        tuple(probabilities.tolist()),
        outside,
        entropy_bits(log_probs).item(),
        after,
    )


def expected_next(model: Looked, options: NextOptions) -> list[Likeliest]:
    """Return the distribution after the text, or at each mask for a masked model, of a subject, run or task."""
    return [
        likeliest(place.log_probs, place.tokenizer, options.top, place.at)
        for place in expectations(subject_of(model), options)
    ]


def expectations(subject: Subject, options: NextOptions) -> list[Any]:
    with evaluating([subject.module]):
        return list(subject.offers.expects(ModelInput(options.text, options.target, options.into)))


def look_next(subjects: Sequence[Subject], options: NextOptions) -> View:
    subject = subjects[0]
    if options.target is not None and not subject.has("own_target"):
        raise UserError(f"{subject.name} writes no target; leave target= out")
    places = expectations(subject, options)
    distributions = [likeliest(place.log_probs, place.tokenizer, options.top, place.at) for place in places]
    parts: list[Part] = []
    for place, distribution in zip(places, distributions, strict=True):
        names, values, rest = list_tokens(distribution, place.log_probs, place.tokenizer, options.also)
        parts.append(Bars([*names, OTHERS], [*values, rest], "probability", distribution.after, low=0.0, high=1.0))
    about = "; ".join(
        f"{distribution.after + ': ' if distribution.after else ''}entropy {distribution.entropy:.2f} bits,"
        f" {distribution.outside:.1%} outside the top {len(distribution.tokens)}"
        for distribution in distributions
    )
    is_inside = any(distribution.after for distribution in distributions)
    title = "The token at each mask" if is_inside else "Next token"
    return View(title, parts, about, {"next": [distribution._asdict() for distribution in distributions]})


def tokens_of_all(views: Sequence[View], options: NextOptions) -> NextOptions:
    """Add the tokens that any of the views lists."""
    return options.model_copy(update={"also": tuple(name for name in bar_names(views) if name != OTHERS)})


NEXT = Instrument(
    "what the model predicts next: tokens, their probabilities, entropy",
    NextOptions,
    look_next,
    needs=("expects",),
    besides=tokens_of_all,
)
