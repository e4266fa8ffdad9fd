"""Gradients of each written word's log-probability with respect to every source place, drawn as a map and a table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor

from clew.drawing.views import Heatmap, Part, Table
from clew.inspection.gradient_flow import watched_embedding
from clew.tasks.offers import Reading

MOST_WRITTEN = 100
"""The maximum number of target tokens whose source gradients are computed."""


@contextmanager
def watched_source(reading: Reading) -> Iterator[list[Tensor]]:
    """Collect the encoder's embedded input (1, places, dim), with gradients, within the context; empty if the model has
    no separate source."""
    path = getattr(reading.model, "source_entrance", None)
    if not reading.writes or path is None:
        yield []
        return
    with watched_embedding(reading.module, path(reading)) as embedded:
        yield embedded


def source_parts(by_state: Mapping[str, Tensor], reading: Reading) -> list[Part]:
    """Draw maps of |d log p(y_t) / d x_s| (written, read) for states of a model, on one scale, and for the first state
    a table of the strongest source place of each word."""
    if not by_state:
        return []
    first = next(iter(by_state.values()))
    written = reading.written[: len(first)]
    high = max(float(norms.max()) for norms in by_state.values())
    maps: list[Part] = [
        Heatmap(
            norms.numpy(),
            written,
            reading.tokens,
            f"|d log p(y_t) / d x_s|, {state}",
            "written",
            "read",
            0.0,
            high,
            label="gradient",
        )
        for state, norms in by_state.items()
    ]
    return [
        *maps,
        Table(
            ("written", "strongest source token", "share (%)", "|gradient|, all"),
            rows_of(first, written, reading.tokens),
        ),
    ]


def rows_of(norms: Tensor, written: Sequence[str], read: Sequence[str]) -> list[tuple[str, str, float, float]]:
    """List each written token, the source token with the largest gradient, its share of the sum, and the norm over all
    source places."""
    rows = []
    for token, row in zip(written, norms, strict=True):
        place = int(row.argmax())
        share = float(row[place] / row.sum().clamp(min=1e-300))
        rows.append((token, read[place], round(100 * share, 1), float(f"{float(row.norm()):.4g}")))
    return rows
