"""Files whatever they hold: opened, unpacked, decoded, and detected by their bytes."""

from clew.core.rooms import show_modules

show_modules(__name__)
