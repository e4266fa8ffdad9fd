"""What each word that is written rests on: the gradient of its log-probability by every place of the source, as a map and in words."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor

from clew.drawing.views import Heatmap, Part, Table
from clew.inspection.gradient_flow import watched_embedding
from clew.tasks.offers import Reading

MOST_WRITTEN = 100
"""Tokens of a target whose gradients by the source are taken, from the first."""


@contextmanager
def watched_source(reading: Reading) -> Iterator[list[Tensor]]:
    """Within this context what the encoder reads is kept, (1, places, dim), and gradients are taken of it; nothing where a model has no
    source besides what it writes."""
    path = getattr(reading.model, "source_entrance", None)
    if not reading.writes or path is None:
        yield []
        return
    with watched_embedding(reading.module, path(reading)) as kept:
        yield kept


def source_parts(found: Mapping[str, Tensor], reading: Reading) -> list[Part]:
    """Maps |d log p(y_t) / d x_s| (written, read) of a model in some states, on one scale; of the first also what each word rests on."""
    if not found:
        return []
    first = next(iter(found.values()))
    written = reading.written[: len(first)]
    high = max(float(norms.max()) for norms in found.values())
    maps: list[Part] = [
        Heatmap(norms.numpy(), written, reading.tokens, f"|d log p(y_t) / d x_s|, {state}", "written", "read", 0.0, high, label="gradient")
        for state, norms in found.items()
    ]
    return [*maps, Table(("written", "rests most on", "share (%)", "|gradient| by all"), rows_of(first, written, reading.tokens))]


def rows_of(norms: Tensor, written: Sequence[str], read: Sequence[str]) -> list[tuple[str, str, float, float]]:
    """Each token that is written, the one of the source with the largest gradient, its share of the sum, and the norm by all of them."""
    rows = []
    for token, row in zip(written, norms, strict=True):
        place = int(row.argmax())
        share = float(row[place] / row.sum().clamp(min=1e-300))
        rows.append((token, read[place], round(100 * share, 1), float(f"{float(row.norm()):.4g}")))
    return rows
