"""Streamed texts, encoded while a model trains on them."""

from clew.core.rooms import show_modules

show_modules(__name__)
