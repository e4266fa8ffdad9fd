"""The table of experiments, in the order of the lineage: recurrence, the bottleneck and attention, the Transformer and its size."""

from clew.tour.bottleneck import BOTTLENECK
from clew.tour.carry import CARRY
from clew.tour.context import CONTEXT
from clew.tour.experiment import Experiment
from clew.tour.growth import GROWTH
from clew.tour.reach import REACH
from clew.tour.recall import RECALL
from clew.tour.search import SEARCH

EXPERIMENTS: dict[str, Experiment] = {
    "reach": REACH,
    "recall": RECALL,
    "context": CONTEXT,
    "carry": CARRY,
    "bottleneck": BOTTLENECK,
    "search": SEARCH,
    "growth": GROWTH,
}
