"""What instruments look at: runs, modules, corpora, and the places in them."""

from clew.core.rooms import show_modules

show_modules(__name__)
