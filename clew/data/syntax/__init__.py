"""Trees and graphs over the words of sentences. Opens no file."""

from clew.core.rooms import show_modules

show_modules(__name__)
