"""The files of a run directory, and who may write them."""

from clew.core.rooms import show_modules

show_modules(__name__)
