"""Sounds in files, as samples, and with what is said in them."""

from clew.core.rooms import show_modules

show_modules(__name__)
