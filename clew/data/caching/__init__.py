"""The cache of prepared data: examples, token ids and lengths, computed once and memory-mapped."""

from clew.core.rooms import show_modules

show_modules(__name__)
