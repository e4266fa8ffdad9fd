"""The table of experiments, in the order of the lineage: recurrence, the bottleneck and attention, the Transformer and its size."""

from clew.tour.barriers import barriers
from clew.tour.cost import cost
from clew.tour.depth import depth
from clew.tour.experiment import Experiment
from clew.tour.kernel import kernel
from clew.tour.length import length
from clew.tour.positions import positions
from clew.tour.softmax import softmax

EXPERIMENTS: dict[str, Experiment] = {
    "kernel": Experiment("kernel regression is attention", kernel),
    "softmax": Experiment("why scores are divided by the root of the width", softmax),
    "positions": Experiment("pictures of position encodings, and p_i . p_j against i - j", positions),
    "barriers": Experiment("the Transformer's block without one of its parts", barriers),
    "depth": Experiment("2 to 32 layers, plain, residual, dense and highway", depth),
    "length": Experiment("trained on short texts and read on longer ones, by position encoding", length),
    "cost": Experiment("what layers cost against length, beside the formula", cost),
}
