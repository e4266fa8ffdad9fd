"""Decoding algorithms for any model that gives next-token log-probabilities. Knows no model and no text: see
`stepper.Stepper`."""

from clew.core.rooms import show_modules

show_modules(__name__)
