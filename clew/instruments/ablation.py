"""The effect of switching heads off: the predictions of a model at every place, before and after.

    change_t = KL(p_t || q_t) = sum_w p_t(w) log2 (p_t(w) / q_t(w))        in bits; p with all heads, q without some

For a classifier it also shows the probability of every label, and for a model that predicts no tokens how far the
vectors of its input turn: 1 - cos(h_t, h'_t).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.views import Bars, ColouredText, Part, Table, View
from clew.inspection.attention_weights import shows_attention
from clew.inspection.bits import divergence
from clew.inspection.heads import head_names, heads_off, why_headless
from clew.instruments.instrument import Choices, Instrument, Text
from clew.instruments.reading import read
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import ModelInput, Reading, TokenScores

MOST_ROWS = 15


class AblationOptions(Section):
    """A text, and the heads that are switched off when the model reads it a second time."""

    text: Text = Field("", description="what the model reads")
    heads: tuple[str, ...] = Field(
        (), description="heads to switch off, LAYER.HEAD from 1, such as 2.5; cross.2.5 for a decoder"
    )
    target: str | None = Field(None, description="a translator's output; by default its own translation")
    into: str = Field("", description="the language to write, for a translator into several")


def turned(before: Tensor, after: Tensor) -> Tensor:
    """Return 1 - cos between corresponding rows."""
    return 1 - torch.nn.functional.cosine_similarity(before.cpu().double(), after.cpu().double(), dim=-1)


def look_without(subjects: Sequence[Subject], options: AblationOptions) -> View:
    subject = subjects[0]
    if not options.heads:
        raise UserError("name the heads to switch off, such as heads=1.1,2.3; the instrument attention shows them")
    reading = read(subject, options.text, options.target, into=options.into)
    scores: TokenScores | None = subject.offers.scores_tokens(reading) if subject.has("scores_tokens") else None
    before = observe(subject, reading, scores)
    with heads_off(subject.module, options.heads):
        after = observe(subject, reading, scores)
    names = ("all heads", f"without {', '.join(options.heads)}")
    facts: dict[str, Any] = {"heads": list(options.heads)}
    parts: list[Part] = []
    if before.labels and after.labels:
        labels = list(before.labels)
        pairs = [[before.labels[each], after.labels[each]] for each in labels]
        parts.append(Bars(labels, pairs, "probability", "Labels", names, 0.0, 1.0))
        facts["labels"] = {
            name: dict(each.labels or {}) for name, each in zip(("before", "after"), (before, after), strict=True)
        }
    if scores is not None and before.log_probs is not None and after.log_probs is not None:
        bits = divergence(before.log_probs, after.log_probs)
        parts += expectations(reading, scores, before.log_probs, after.log_probs, bits)
        about = f"on average {bits.mean():.3g} bits of divergence between the predictions before and after"
        return View(
            f"Without {', '.join(options.heads)}",
            parts,
            about,
            {**facts, "bits": bits.tolist(), "mean_bits": float(bits.mean())},
        )
    angles = turned(before.hidden, after.hidden)
    parts.append(
        ColouredText(reading.written or reading.pieces, angles.tolist(), "How far each vector turns", "1 - cos", 0.0)
    )
    about = f"on average the tokens' vectors turn by {angles.mean():.3g} (1 - cos)"
    return View(f"Without {', '.join(options.heads)}", parts, about, {**facts, "turned": angles.tolist()})


class Outputs(NamedTuple):
    """The output of a model for a text: vectors (places, dim), log p (places, vocabulary), and probabilities of
    labels."""

    hidden: Tensor
    log_probs: Tensor | None
    labels: dict[str, float] | None


def observe(subject: Subject, reading: Reading, scores: TokenScores | None) -> Outputs:
    hidden = reading.hidden()
    judges = subject.has("judges") and not subject.pairs
    labels = dict(subject.offers.judges(ModelInput(reading.text)).probabilities) if judges else None
    with torch.no_grad():
        log_probs = None if scores is None else scores.output(hidden)[0].float().log_softmax(-1).cpu()
    return Outputs(hidden[0].cpu(), log_probs, labels)


def expectations(reading: Reading, scores: TokenScores, before: Tensor, after: Tensor, bits: Tensor) -> list[Part]:
    """Show the places that change most, with the most likely token of each before and after."""
    tokenizer = scores.tokenizer
    tokens = reading.written or reading.pieces
    title = (
        "Change of the prediction after each token" if scores.comes_after else "Change of the prediction at each place"
    )
    rows = []
    for place in bits.argsort(descending=True)[:MOST_ROWS].tolist():
        row: list[Any] = [place + 1, tokens[place]]
        for log_probs in (before[place], after[place]):
            best = int(log_probs[: tokenizer.vocabulary].argmax())
            row += [tokenizer.piece(best), round(float(log_probs[best].exp()), 4)]
        rows.append((*row, float(f"{float(bits[place]):.3g}")))
    joined = tokenizer.unit == "character"
    table = Table(
        ("place", "token", "most likely before", "its p before", "most likely after", "its p after", "change (bits)"),
        rows,
        "Largest changes",
    )
    return [ColouredText(tokens, bits.tolist(), title, "bits", 0.0, joined=joined), table]


def why_no_ablation(subject: Subject) -> str | None:
    why = why_headless(subject.module, subject.name)
    is_foreign = why is not None and shows_attention(subject.module)
    return f"the heads of {subject.name} can be watched, but not switched off from outside" if is_foreign else why


ABLATION = Instrument(
    "what changes when heads are switched off",
    AblationOptions,
    look_without,
    ("reads",),
    why_no_ablation,
    choices=lambda subject: Choices(("heads",), tuple((name,) for name in head_names(subject.module))),
)
