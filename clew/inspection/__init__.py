"""Recording and intervening on any torch module, and analyses of what was recorded."""

from clew.core.rooms import show_modules

show_modules(__name__)
