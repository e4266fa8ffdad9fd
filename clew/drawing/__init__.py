"""Views, and their parts as SVG, HTML and matplotlib figures. Knows no model."""

from clew.core.rooms import show_modules

show_modules(__name__)
