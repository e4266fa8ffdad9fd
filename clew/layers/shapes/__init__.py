"""Layers over trees, grids, graphs, pictures and frames."""

from clew.core.rooms import show_modules

show_modules(__name__)
