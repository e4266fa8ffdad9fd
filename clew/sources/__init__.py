"""What a body reads, as vectors with a mask: tokens, words, frames, pictures, nodes."""

from clew.core.rooms import show_modules

show_modules(__name__)
