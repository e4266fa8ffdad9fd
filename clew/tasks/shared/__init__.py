"""Parts that several tasks are made of: heads, decoders' losses, and how inputs are read."""

from clew.core.rooms import show_modules

show_modules(__name__)
