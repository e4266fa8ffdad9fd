"""How the places of what a model reads lie: tokens in a line, frames along time, patches in rows and columns, words of a graph."""

from typing import NamedTuple

from clew.core.errors import plural


class Layout(NamedTuple):
    """`names` are what a person calls the places, `unit` is what stands at one.

    Places lie in a line, or in `shape` rows and columns, row by row. Those that are measured along a line, such as frames, have its name
    in `axis` and where each stands on it in `at`. Tokens and words have neither: they are read as a text.
    """

    names: tuple[str, ...]
    unit: str = "token"
    shape: tuple[int, int] | None = None
    axis: str = ""
    at: tuple[float, ...] = ()

    @property
    def units(self) -> str:
        """What stands at several places."""
        return plural(self.unit)

    @property
    def is_text(self) -> bool:
        return self.shape is None and not self.axis

    @property
    def row_names(self) -> list[str]:
        return [] if self.shape is None else [str(row) for row in range(1, self.shape[0] + 1)]

    @property
    def column_names(self) -> list[str]:
        return [] if self.shape is None else [str(column) for column in range(1, self.shape[1] + 1)]
