"""Sounds: files, samples, and readers of sounds with transcripts."""

from clew.core.rooms import show_modules

show_modules(__name__)
