"""Parts that several tasks share: heads, decoders, losses, and the ways that inputs are read."""

from clew.core.rooms import show_modules

show_modules(__name__)
