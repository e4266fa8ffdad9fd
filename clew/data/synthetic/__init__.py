"""Data whose truth is known: drawn by a seed, the same for the same one."""

from clew.core.rooms import show_modules

show_modules(__name__)
