"""Uses of trained runs: the rows, options and answers that tasks share. Members are `Use`s (`clew.tasks.use`)."""

from clew.core.rooms import show_modules

show_modules(__name__)
