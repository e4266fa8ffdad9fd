"""What is computed from data once and kept in the cache, memory-mapped: examples, ids, lengths."""

from clew.core.rooms import show_modules

show_modules(__name__)
