"""Open, unpack and decode files of any kind, and detect a file's kind by its first bytes."""

from clew.core.rooms import show_modules

show_modules(__name__)
