"""Views, the results of instruments: a title and parts. A view draws itself (SVG, HTML, matplotlib); its parts are
plain values."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError, named
from clew.core.files import write_text
from clew.drawing import pages
from clew.drawing.figures import figure_of, save_figure
from clew.drawing.parts import (
    Bars,
    Branch,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Node,
    Note,
    Overlays,
    Part,
    Points,
    Series,
    Spelled,
    Table,
)
from clew.drawing.standalone import Theme

__all__ = [
    "Bars",
    "Branch",
    "Branches",
    "ColouredText",
    "Grid",
    "Heatmap",
    "Lines",
    "Network",
    "Node",
    "Note",
    "Overlays",
    "Part",
    "Points",
    "Series",
    "Spelled",
    "Table",
    "View",
]


@dataclass(frozen=True)
class View:
    """Parts under a title. Displays itself in a notebook. `save` chooses the format by the file's suffix: .html, .svg,
    .json, or .png and .pdf by matplotlib."""

    title: str
    parts: Sequence[Part]
    about: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    """Numbers for programs, as JSON values."""

    def html(self) -> str:
        """The view as one self-contained page."""
        return pages.document(self.title, self.about, self.parts)

    def fragment(self, name: str | None = None) -> str:
        """The same, for a page with its own style sheet and script (`clew.drawing.pages`); all ids start with
        `name`."""
        return pages.fragment(self.title, self.about, self.parts, name)

    def svg(self, theme: Theme = "auto") -> str:
        """All parts below each other, as one picture. Theme "auto" follows the reader's system; "light" and "dark" are
        fixed."""
        return pages.picture(self.title, self.about, self.parts, theme)

    def figure(self) -> Any:
        """A matplotlib figure with one panel per part."""
        return figure_of(self.title, [Note(self.about), *self.parts] if self.about else self.parts)

    def json(self) -> str:
        """All values as JSON, each part with its kind. Non-finite numbers (such as the mean of nothing) are null."""
        parts = [{"kind": type(part).__name__.lower(), **asdict(part)} for part in self.parts]
        content = {"title": self.title, "about": self.about, "facts": self.facts, "parts": parts}
        return json.dumps(json_ready(content), allow_nan=False) + "\n"

    def save(self, path: Path | str) -> Path:
        """Saves the view in the format of the path's suffix."""
        path = Path(path)
        ending = path.suffix.lower()
        if not path.parent.is_dir():
            raise UserError(f"no such folder for the view: {path.parent}; create it first")
        if ending in WRITERS:
            write_text(path, WRITERS[ending](self))
        elif ending in FIGURES:
            save_figure(self.figure(), path)
        else:
            raise UserError(
                f"cannot save a view as {named(path.name)}; known endings: {', '.join([*WRITERS, *FIGURES])}"
            )
        return path

    def __repr__(self) -> str:
        return f"View({self.title!r}: {', '.join(type(part).__name__ for part in self.parts)})"

    def __str__(self) -> str:
        return "\n".join([self.title, *([self.about] if self.about else []), *map(part_line, self.parts)])

    def _repr_html_(self) -> str:
        """A frame for Jupyter, Colab and VS Code."""
        return pages.frame(self.title, self.about, self.parts)


def part_line(part: Part) -> str:
    """A note in full; of any other part what it is."""
    if isinstance(part, Note):
        return part.text
    title = getattr(part, "title", "")
    return type(part).__name__ + (f": {title}" if title else "")


def json_ready(value: Any) -> Any:
    """A value in JSON's types."""
    if isinstance(value, np.ndarray | np.generic):
        return json_ready(value.tolist())
    if isinstance(value, dict):
        return {str(key): json_ready(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


WRITERS = {".html": View.html, ".svg": View.svg, ".json": View.json}
FIGURES = (".png", ".pdf")


def bar_names(views: Sequence[View]) -> list[str]:
    """The names of all bars of the views, each once, in order."""
    return list(
        dict.fromkeys(name for view in views for part in view.parts if isinstance(part, Bars) for name in part.names)
    )
