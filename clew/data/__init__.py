"""Corpora to batches: one format a file, plans of batches, and the embedded samples. Knows no model."""

from clew.core.rooms import show_modules

show_modules(__name__)
