"""Strings to ids and back: characters, words and subwords. Knows no model, no corpus format and no batch."""

from clew.core.rooms import show_modules

show_modules(__name__)
