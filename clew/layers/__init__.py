"""Sequence layers and their parts, each one function (x, mask, state) -> (y, state). Knows no config."""

from clew.core.rooms import show_modules

show_modules(__name__)
