"""Parts of attention besides its equation: caches, heads, memories, rotations."""

from clew.core.rooms import show_modules

show_modules(__name__)
