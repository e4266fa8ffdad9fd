"""The table of experiments, in the order of the lineage: recurrence, the bottleneck and attention, the Transformer and
its size."""

from clew.tour.barriers import BARRIERS
from clew.tour.bottleneck import BOTTLENECK
from clew.tour.carry import CARRY
from clew.tour.context import CONTEXT
from clew.tour.cost import COST
from clew.tour.depth import DEPTH
from clew.tour.experiment import Experiment
from clew.tour.growth import GROWTH
from clew.tour.kernel import KERNEL
from clew.tour.length import LENGTH
from clew.tour.positions import POSITIONS
from clew.tour.reach import REACH
from clew.tour.recall import RECALL
from clew.tour.search import SEARCH
from clew.tour.softmax import SOFTMAX

EXPERIMENTS: dict[str, Experiment] = {
    "reach": REACH,
    "recall": RECALL,
    "context": CONTEXT,
    "carry": CARRY,
    "depth": DEPTH,
    "kernel": KERNEL,
    "bottleneck": BOTTLENECK,
    "search": SEARCH,
    "softmax": SOFTMAX,
    "positions": POSITIONS,
    "barriers": BARRIERS,
    "length": LENGTH,
    "cost": COST,
    "growth": GROWTH,
}
