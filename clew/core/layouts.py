"""The layout of a model's inputs: tokens in a line, frames along time, patches in rows and columns, words of a
graph."""

from typing import NamedTuple

from clew.core.errors import plural


class Layout(NamedTuple):
    """`names` are display names of the places, `unit` is what one place holds.

    Places are in a line, or in `shape` rows and columns, row by row. Places along a measured axis, such as frames, have
    its name in `axis` and their coordinates in `at`. Tokens and words have neither: they are read as text.
    """

    names: tuple[str, ...]
    unit: str = "token"
    shape: tuple[int, int] | None = None
    axis: str = ""
    at: tuple[float, ...] = ()

    @property
    def units(self) -> str:
        """The plural of `unit`."""
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
