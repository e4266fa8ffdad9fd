"""All cells whose steps are traced, by name: clew's own with their options, and those that users might write."""

from functools import partial

from clew.layers.cells import CELLS
from clew.layers.recurrence.nested_cells import DroppedCell
from clew.layers.recurrence.residual_cell import ResidualCell
from tests.kernels.cells.own_cells import OWN

BUILT = {
    "elman": CELLS["elman"],
    "elman relu": partial(CELLS["elman"], nonlinearity="relu"),
    "elman sigmoid": partial(CELLS["elman"], nonlinearity="sigmoid", weight_drop=0.4),
    "lstm": CELLS["lstm"],
    "lstm identity": partial(CELLS["lstm"], cell_output="identity"),
    "gru": CELLS["gru"],
    "peephole_lstm": partial(CELLS["peephole_lstm"], weight_drop=0.4),
    "layernorm_lstm": CELLS["layernorm_lstm"],
    "coupled_lstm": CELLS["coupled_lstm"],
    "residual": lambda input_dim, dim: ResidualCell(CELLS["coupled_lstm"](dim, dim)),
    "locked dropout": lambda input_dim, dim: DroppedCell(CELLS["lstm"](input_dim, dim), 0.4, "locked"),
    "resting dropout": lambda input_dim, dim: DroppedCell(CELLS["lstm"](input_dim, dim), 0.4).eval(),
    **OWN,
}
