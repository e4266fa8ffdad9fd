"""Cells made of cells, and other ways to run a cell than `Recurrent`."""

from clew.core.rooms import show_modules

show_modules(__name__)
