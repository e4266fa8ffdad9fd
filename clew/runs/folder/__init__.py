"""The files of a run directory, and the lock that guards writing them."""

from clew.core.rooms import show_modules

show_modules(__name__)
