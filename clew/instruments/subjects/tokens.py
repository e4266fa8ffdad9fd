"""A text as a model reads it: its tokens, their ids, and the characters that each covers."""

from collections.abc import Sequence

from clew.drawing.views import ColouredText, Part, Table, View
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.subject import Subject


def look_at_tokens(subjects: Sequence[Subject], options: TextOptions) -> View:
    reading = read(subjects[0], options.text, options.target, into=options.into, any_length=True)
    spans = reading.spans or (None,) * len(reading.tokens)
    ids = reading.ids or ("",) * len(reading.tokens)
    rows = [
        (place, piece, token, id, *(["" if span is None else f"{span[0]}-{span[1]}"] if reading.spans else []))
        for place, (piece, token, id, span) in enumerate(
            zip(reading.pieces, reading.tokens, ids, spans, strict=True), start=1
        )
    ]
    notes = [f"{token}, id {id}" for token, id in zip(reading.tokens, ids, strict=True)]
    parts: list[Part] = [
        ColouredText(reading.pieces, [float(place % 2) for place in range(len(rows))], low=0.0, high=4.0, notes=notes),
        Table(("place", "text", "token", "id", *(["characters"] if reading.spans else [])), rows),
    ]
    if reading.writes:
        written = list(zip(range(1, len(reading.written) + 1), reading.written, reading.written_ids, strict=True))
        parts.append(Table(("place", "token", "id"), written, "Written"))
    unknown_count = reading.num_unknown(reading.ids)
    about = f"{len(rows)} {'tokens' if reading.ids else 'vectors'}" + (
        f", {unknown_count} unknown to the model" if unknown_count else ""
    )
    if (limit := reading.limit) is not None and len(rows) > limit:
        about += f"; the model has {limit} positions, so instruments that run it need a shorter text"
    facts = {
        "tokens": list(reading.tokens),
        "ids": list(reading.ids),
        "spans": [None if span is None else list(span) for span in spans],
        "unknown": unknown_count,
        "written": list(reading.written),
        "written_ids": list(reading.written_ids),
    }
    return View("Tokens", parts, about, facts)


TOKENS = Instrument(
    "a text as the model reads it: tokens, their ids and their characters",
    TextOptions,
    look_at_tokens,
    needs=("reads",),
)
