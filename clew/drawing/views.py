"""What instruments show: a view is a title and parts. It draws itself (SVG, HTML, matplotlib); its parts are plain values."""

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
    """Parts under a title. Shows itself in a notebook, and is saved by the ending of a file's name: .html, .svg, .json, or what matplotlib
    writes (.png, .pdf)."""

    title: str
    parts: Sequence[Part]
    about: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    """Numbers that a program may want, JSON alone."""

    def html(self) -> str:
        """One page that needs nothing else."""
        return pages.document(self.title, self.about, self.parts)

    def fragment(self, name: str | None = None) -> str:
        """The same for a page that has style sheet and script of its own (`clew.drawing.pages`); `name` begins all ids."""
        return pages.fragment(self.title, self.about, self.parts, name)

    def svg(self) -> str:
        """All parts below each other, as one picture."""
        return pages.picture(self.title, self.about, self.parts)

    def figure(self) -> Any:
        """A matplotlib figure, a panel a part."""
        return figure_of(self.title, [Note(self.about), *self.parts] if self.about else self.parts)

    def json(self) -> str:
        """All values, each part with its kind. What is no number (a mean of nothing) is null."""
        parts = [{"kind": type(part).__name__.lower(), **asdict(part)} for part in self.parts]
        content = {"title": self.title, "about": self.about, "facts": self.facts, "parts": parts}
        return json.dumps(plain(content), allow_nan=False) + "\n"

    def save(self, path: Path | str) -> Path:
        """Writes the view as its file's ending says."""
        path = Path(path)
        ending = path.suffix.lower()
        if not path.parent.is_dir():
            raise UserError(f"no such folder: {path.parent}, where the view is to be saved; make it first")
        if ending in WRITERS:
            write_text(path, WRITERS[ending](self))
        elif ending in FIGURES:
            save_figure(self.figure(), path)
        else:
            raise UserError(f"cannot save a view as {named(path.name)}; known endings: {', '.join([*WRITERS, *FIGURES])}")
        return path

    def _repr_html_(self) -> str:
        """One frame for Jupyter, Colab and VS Code."""
        return pages.frame(self.title, self.about, self.parts)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


WRITERS = {".html": View.html, ".svg": View.svg, ".json": View.json}
FIGURES = (".png", ".pdf")


def bar_names(views: Sequence[View]) -> list[str]:
    """The names of all bars of the views, each once, in their order."""
    return list(dict.fromkeys(name for view in views for part in view.parts if isinstance(part, Bars) for name in part.names))
