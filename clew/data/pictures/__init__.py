"""Pictures: files, pixels, and readers of pictures with text."""

from clew.core.rooms import show_modules

show_modules(__name__)
