"""Configs, run folders, and a trained run ready to use."""

from clew.core.rooms import show_modules

show_modules(__name__)
