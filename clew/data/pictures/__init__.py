"""Pictures in files, as arrays, and with what is said of them."""

from clew.core.rooms import show_modules

show_modules(__name__)
