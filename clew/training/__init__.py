"""The training loop, optimisers, schedules, checkpoints, loggers."""

from clew.core.rooms import show_modules

show_modules(__name__)
