"""Metrics: pure functions of counts that add across processes. Knows no model and no text."""

from clew.core.rooms import show_modules

show_modules(__name__)
