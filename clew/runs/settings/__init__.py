"""Settings as people write them: read, explained, compared, laid over others, upgraded."""

from clew.core.rooms import show_modules

show_modules(__name__)
