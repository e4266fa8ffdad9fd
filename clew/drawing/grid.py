"""Many small maps, such as one per layer (row) and head (column): one image, with a mark over each map."""

import numpy as np

from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.parts import Grid
from clew.drawing.shapes import Box, Label, Picture, Raster, Shape

SIDE, GAP, MARGIN = 48, 7, 4
LONGEST_NAME = 24


def thumbnail(values: np.ndarray, side: int = SIDE) -> np.ndarray:
    """A map reduced to `side` x `side` pixels. Each pixel has the maximum of its values, since attention is sparse."""
    for axis in (0, 1):
        count = values.shape[axis]
        if count > side:
            values = np.fmax.reduceat(values, np.arange(side) * count // side, axis=axis)
        else:
            values = values.take(np.arange(side) * count // side, axis=axis)
    return values


def grid(part: Grid) -> Picture:
    maps = [
        [
            np.nan_to_num(thumbnail(np.atleast_2d(each)), nan=part.low)
            if np.size(each)
            else np.full((SIDE, SIDE), part.low)
            for each in row
        ]
        for row in part.maps
    ]
    high = part.high if part.high is not None else max((float(each.max()) for row in maps for each in row), default=1.0)
    rows, columns = len(maps), max(map(len, maps), default=0)
    row_names, column_names = (
        [shortened_name(visible(name), LONGEST_NAME) for name in names] for names in (part.row_names, part.column_names)
    )
    step = max(SIDE + GAP, max((text_width(name, 11.5) + GAP for name in column_names), default=0))
    left, top = MARGIN + max((text_width(name, 13) for name in row_names), default=0) + GAP, MARGIN + 14 + GAP
    canvas = np.zeros((rows * (SIDE + GAP), columns * step))
    marks: list[Shape] = []
    notes = [
        [
            part.notes[row][column] if row < len(part.notes) and column < len(part.notes[row]) else ""
            for column in range(columns)
        ]
        for row in range(rows)
    ]
    for row, row_of_maps in enumerate(maps):
        for column, values in enumerate(row_of_maps):
            y, x = row * (SIDE + GAP), column * step
            canvas[y : y + SIDE, x : x + SIDE] = np.clip(
                (values - part.low) / (high - part.low if high > part.low else 1.0), 0, 1
            )
            about = ", ".join(
                names[at] for names, at in ((part.row_names, row), (part.column_names, column)) if at < len(names)
            )
            x, y = left + column * step, top + row * (SIDE + GAP)
            note = notes[row][column]
            if note:
                marks.append(Label(x + SIDE / 2, y + SIDE / 2 + 4, note, "number"))
            number = (row, column) if np.size(part.maps[row][column]) else None  # a missing map cannot be selected
            marks.append(
                Box(
                    x - 1,
                    y - 1,
                    SIDE + 2,
                    SIDE + 2,
                    "thumb",
                    f"{about}: {note}" if note else about,
                    round=3,
                    number=number,
                )
            )
    shapes: list[Shape] = (
        [Raster(left, top, canvas.shape[1], canvas.shape[0], np.rint(255 * canvas), "heat")] if canvas.size else []
    )
    shapes += [
        Label(left - GAP, top + row * (SIDE + GAP) + SIDE / 2 + 4, name, "word-end")
        for row, name in enumerate(row_names[:rows])
    ]
    shapes += [
        Label(left + column * step + SIDE / 2, top - GAP, name, "tick")
        for column, name in enumerate(column_names[:columns])
    ]
    about = f"{part.title or 'maps'}: {rows} rows of {columns}"
    return Picture(left + columns * step + MARGIN, top + rows * (SIDE + GAP) + MARGIN, [*shapes, *marks], about)
