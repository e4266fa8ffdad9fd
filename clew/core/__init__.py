"""Shared values: state, masks, taps, trees, errors. Knows no model."""

from clew.core.rooms import show_modules

show_modules(__name__)
