"""The table of experiments, in the order of the lineage: recurrence, the bottleneck and attention, the Transformer and its size."""

from clew.tour.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {}
