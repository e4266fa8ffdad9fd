"""Settings as users write them: parse, explain errors, compare, override and upgrade."""

from clew.core.rooms import show_modules

show_modules(__name__)
