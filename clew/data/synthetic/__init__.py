"""Generated data with known answers; the same seed gives the same data."""

from clew.core.rooms import show_modules

show_modules(__name__)
