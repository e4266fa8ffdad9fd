"""Sampling step by step: the tokens that the cut-offs leave, their mass, and the token that is drawn.

    top-k      the k most probable tokens                                   (Fan et al. 2018)
    nucleus    the smallest set of most probable tokens whose mass reaches p (Holtzman et al. 2020)

The mass is measured in the distribution before the cut: the model's, at the requested temperature.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field
from torch import Tensor

from clew.core.modes import evaluating
from clew.core.types import State
from clew.decoding.filters import with_filters
from clew.decoding.sampling import sample
from clew.decoding.stepper import Stepper
from clew.drawing.letters import visible
from clew.drawing.views import ColouredText, Lines, Part, Series, Table, View
from clew.inspection.bits import entropy_bits
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.subject import Subject
from clew.instruments.subjects.writing import WritingOptions, begin_writing
from clew.tasks.uses.writing import DecodingConfig

ROUNDING = 1e-6
"""A smaller remaining mass counts as rounding error."""


class SampledStep(NamedTuple):
    """One step: the drawn token, its rank (from 1) and its probability before and after the cut; the number and mass of
    the tokens left, the entropy in bits before the cut, and the most probable tokens with their probabilities before
    and after."""

    token: int
    rank: int
    before: float
    after: float
    left: int
    mass: float
    entropy: float
    best: tuple[tuple[int, float, float], ...]


class RecordingStepper:
    """A stepper that keeps its last log-probabilities."""

    def __init__(self, stepper: Stepper):
        self.stepper = stepper
        self.vocabulary = stepper.vocabulary
        self.last: Tensor | None = None

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.stepper.initial_state(rows, capacity)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        log_probs, state = self.stepper(tokens, mask, state)
        self.last = log_probs[0, -1]
        return log_probs, state


def sampled_steps(
    stepper: Stepper,
    prompt: Tensor,
    *,
    max_new: int,
    ends: Sequence[int],
    seed: int,
    top_k: int | None = None,
    top_p: float | None = None,
    top: int = 8,
) -> list[SampledStep]:
    """Sample one row (1, length) as `decoding.sampling` does with these cut-offs, and return its steps."""
    inner = RecordingStepper(stepper)
    outer = RecordingStepper(with_filters(inner, top_k=top_k, top_p=top_p))
    steps = []
    for token in sample(outer, prompt, max_new=max_new, end=list(ends), seed=seed):
        assert inner.last is not None and outer.last is not None
        steps.append(sampled_step(int(token[0]), inner.last, outer.last, top))
    return steps


def sampled_step(token: int, before: Tensor, after: Tensor, top: int) -> SampledStep:
    """Build a step from log p (vocabulary,) before the cut, which need not be normalised, and after it."""
    log_probs, probs_after = before.cpu().double().log_softmax(-1), after.cpu().double().exp()
    probs = log_probs.exp()
    best = probs.topk(min(top, len(probs)))
    is_left = probs_after > 0
    return SampledStep(
        token,
        int((probs > probs[token]).sum()) + 1,
        float(probs[token]),
        float(probs_after[token]),
        int(is_left.sum()),
        float(probs[is_left].sum()),
        float(entropy_bits(log_probs)),
        tuple((id, float(probs[id]), float(probs_after[id])) for id in best.indices.tolist()),
    )


class SamplingOptions(WritingOptions):
    """The prompt, and the settings of sampling."""

    temperature: float = Field(1.0, gt=0, description="below 1 sharpens the distribution, above 1 flattens it")
    top_k: int | None = Field(None, ge=1, description="sample from only the k most probable tokens")
    top_p: float | None = Field(
        0.9, gt=0, le=1, description="sample from only the most probable tokens whose mass reaches p"
    )
    seed: int = Field(0, ge=0, description="seed of the random numbers")
    top: int = Field(6, ge=1, le=100, description="the number of most probable tokens to list at each step")


def look_at_sampling(subjects: Sequence[Subject], options: SamplingOptions) -> View:
    subject = subjects[0]
    with evaluating([subject.module]):
        writer = begin_writing(
            subject, options, DecodingConfig(max_new=options.max_new, temperature=options.temperature)
        )
        steps = sampled_steps(
            writer.stepper,
            writer.start,
            max_new=writer.most,
            ends=writer.ends,
            seed=options.seed,
            top_k=options.top_k,
            top_p=options.top_p,
            top=options.top,
        )
    name = writer.tokenizer.piece
    text = writer.text([step.token for step in steps])
    rows = [
        (
            number,
            name(step.token),
            step.rank,
            round(step.before, 4),
            round(step.after, 4),
            step.left,
            round(step.mass, 4),
            listed(step, name),
        )
        for number, step in enumerate(steps, start=1)
    ]
    numbers = list(range(1, len(steps) + 1))
    notes = [f"p {step.before:.3g}, rank {step.rank} of {step.left} left" for step in steps]
    joined = writer.tokenizer.unit == "character"
    parts: list[Part] = [
        ColouredText(
            [name(step.token) for step in steps],
            [step.before for step in steps],
            "SampledStep",
            "p",
            0.0,
            1.0,
            joined=joined,
            notes=notes,
        ),
        Lines([Series("tokens left", numbers, [step.left for step in steps])], "step", "tokens left", log_y=True),
        Table(
            ("step", "drawn", "rank", "p", "p after the cut", "left (tokens)", "their mass (p)", "most likely, with p"),
            rows,
        ),
    ]
    about = (
        f"{text!r}: {sum(step.left for step in steps) / len(steps):.1f} tokens left by the cut-offs on average over"
        f" {len(steps)} steps"
    )
    return View("Sampling", parts, about, {"text": text, "steps": [as_fact(step, name) for step in steps]})


def listed(step: SampledStep, name: Any) -> str:
    """List the most likely tokens with their probabilities, removed tokens in parentheses, and the mass of all
    others."""
    items = [(f"{visible(name(id))} {before:.2f}", after > 0) for id, before, after in step.best]
    other_mass = max(1 - sum(before for _, before, _ in step.best), 0.0)
    listed = [text if is_left else f"({text})" for text, is_left in items]
    return "; ".join([*listed, f"all others {other_mass:.2f}"] if other_mass > ROUNDING else listed)


def as_fact(step: SampledStep, name: Any) -> dict[str, Any]:
    best = [{"token": name(id), "id": id, "p": before, "after": after} for id, before, after in step.best]
    return {**step._asdict(), "name": name(step.token), "best": best}


SAMPLING = Instrument(
    "sampling step by step: the tokens that the cut-offs leave, and the token drawn",
    SamplingOptions,
    look_at_sampling,
    needs=("steps",),
)
