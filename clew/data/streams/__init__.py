"""Text that is encoded while a model trains on it."""

from clew.core.rooms import show_modules

show_modules(__name__)
