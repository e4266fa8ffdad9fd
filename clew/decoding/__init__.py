"""Choosing tokens with any model that can say how probable the next one is. Knows no model and no text: see `stepper.Stepper`."""
