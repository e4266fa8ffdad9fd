"""What a model expects to come next: the most probable tokens, the mass that all others have, and how undecided it is.

entropy = -sum_w p(w) log2 p(w)
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.drawing.views import Bars, Part, View
from clew.inspection.bits import entropy
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read, why_unreadable
from clew.layers.embeddings import Segmented
from clew.runs.loaded import Run
from clew.sources.words import is_segmented
from clew.tasks.filling import framed_text
from clew.tasks.generation import prompt_batch


class NextOptions(TextOptions):
    """What comes after a text; at each [MASK] of it, for a masked model; after what a translator has written so far (`target`)."""

    top: int = Field(10, ge=1, le=200, description="how many of the most probable tokens are listed")


class Expected(NamedTuple):
    """The most probable tokens, best first, with their ids and probabilities; the mass of all others; the entropy of all, in bits."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    outside: float
    entropy: float
    after: str = ""


def expected(log_probs: Tensor, tokenizer: Any, top: int, after: str = "") -> Expected:
    """Of log p (vocabulary,) in nats."""
    log_probs = log_probs.cpu().double()
    best = log_probs[: tokenizer.vocabulary].topk(min(top, tokenizer.vocabulary))
    probabilities = best.values.exp()
    ids = best.indices.tolist()
    outside = max(1.0 - probabilities.sum().item(), 0.0)
    return Expected(tuple(map(tokenizer.piece, ids)), tuple(ids), tuple(probabilities.tolist()), outside, entropy(log_probs).item(), after)


def expected_next(run: Run, options: NextOptions) -> list[Expected]:
    """After the text; of a masked model, at each of its masks."""
    task = run.task
    with evaluating([task]):
        if run.verb == "generate":
            tokens, mask = prompt_batch(task, [options.text])
            hidden, _ = task.body(tokens, mask)
            return [expected(task.log_probs(hidden[0, -1]), task.tokenizer, options.top)]
        if run.verb == "fill":
            return expected_masks(task, options)
        reading = read(run, options.text, options.target or "", into=options.into)
        return [expected(task.log_probs(reading.forward()[0, -1]), task.target, options.top)]


def expected_masks(task: Any, options: NextOptions) -> list[Expected]:
    framed = framed_text(task, options.text, None, "the text")
    tokens = torch.tensor([framed.tokens])
    inputs: Any = Segmented(tokens, torch.tensor([framed.segments])) if is_segmented(task.body) else tokens
    hidden, _ = task.body(to_device(inputs, task.output_bias.device), None)
    places = tokens[0].eq(task.tokenizer.mask).nonzero()[:, 0].tolist()
    log_probs = task.logits(hidden[0, places]).float().log_softmax(-1)
    return [expected(row, task.tokenizer, options.top, f"mask {number}") for number, row in enumerate(log_probs, start=1)]


def look_next(runs: Sequence[Run], options: NextOptions) -> View:
    run = runs[0]
    if options.target is not None and run.verb in ("generate", "fill"):
        raise UserError(f"{run.folder} writes no target; leave it out, and give the text alone")
    found = expected_next(run, options)
    parts: list[Part] = [Bars([*one.tokens, "all others"], [*one.probabilities, one.outside], "probability", one.after) for one in found]
    about = "; ".join(
        f"{one.after + ': ' if one.after else ''}entropy {one.entropy:.2f} bits, {one.outside:.1%} outside the best {len(one.tokens)}"
        for one in found
    )
    return View(
        "Next token" if run.verb != "fill" else "In the place of each mask", parts, about, {"next": [one._asdict() for one in found]}
    )


def why_no_next(run: Run) -> str | None:
    if run.verb in ("generate", "fill", "translate", "parse"):
        return why_unreadable(run)
    return f"{run.folder} predicts no next token: its task is to {run.verb}"


NEXT = Instrument("what the model expects next: tokens, their probabilities, entropy", NextOptions, look_next, why_no_next)
