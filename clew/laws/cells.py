"""Laws of cells. `Recurrent(cell)` also obeys the laws of sequence layers."""

import torch
from torch import Tensor

from clew.core.state import map_tree
from clew.core.types import Fixed, Memory, Tree
from clew.laws.cases import Build, Case, Chunk, Law, Sizes
from clew.laws.sequences import check_output, check_state
from clew.layers.cells import Cell
from clew.layers.recurrence.nested_cells import StackedCell
from clew.layers.recurrent import Recurrent, unbind_steps
from clew.layers.sequence import Stack


def cell_contract(build: Build, sizes: Sizes) -> None:
    """A cell's step returns y (batch, dim) and a state with the structure of its initial state."""
    case = Case("contract", build, sizes)
    cell, x = case.module, case.draw()
    if not isinstance(cell, Cell):
        case.fail(f"a cell must be a clew.layers.cells.Cell; {type(cell).__name__} is not")
    if (cell.input_dim, cell.dim) != (sizes.input_dim, sizes.dim):
        case.fail(
            f"a cell built as C({sizes.input_dim}, {sizes.dim}) must have these as input_dim and dim, not"
            f" ({cell.input_dim}, {cell.dim})"
        )
    initial = cell.initial_state(sizes.batch, like=x)
    check_state(case, "initial_state", initial)
    inputs = cell.inputs(x)
    map_tree(lambda leaf: _check_input(case, leaf), inputs, keep=(Fixed,))
    result = cell(unbind_steps(inputs, sizes.length)[0], initial)
    if not isinstance(result, tuple) or len(result) != 2:
        case.fail(f"a step must return (y, state), not a {type(result).__name__}")
    check_output(case, result[0], (sizes.batch, sizes.dim))
    check_state(case, "a step", result[1])
    if outline(result[1]) != outline(initial):
        case.fail(
            f"a step changed the structure of the state from {outline(initial)} to {outline(result[1])}; it must stay"
            " the same"
        )


def remembering(build: Build, sizes: Sizes) -> None:
    """The output of a cell depends on earlier inputs: its state is used."""
    for seed in range(sizes.seed, sizes.seed + 4):  # one small rectified cell may be dead, but not all four
        case = Case("remembering", lambda s: Recurrent(build(s)), sizes._replace(seed=seed)).settle()
        x = case.draw(length=max(sizes.length, 2)).requires_grad_()
        (gradient,) = torch.autograd.grad(case.module(x)[0][:, -1].sum(), x)
        if bool((gradient[:, :-1] != 0).any()):
            return
    case.fail("y at the last position does not depend on x at any earlier one; a step must use its state")


def stacking(build: Build, sizes: Sizes) -> None:
    """A stack of cells is a cell: run over time, it equals a stack of recurrences."""
    square = sizes._replace(input_dim=sizes.dim)
    case = Case("stacking", lambda s: Stack([Recurrent(build(s)), Recurrent(build(square))]), sizes).settle()
    together = Recurrent(StackedCell([layer.cell for layer in case.module.layers]))
    x = case.inputs_with_gradient()
    weights = [case.randn(sizes.length, sizes.dim) for _ in range(sizes.batch)]
    expected, actual = case.read(Chunk(x)).rows, case.read(Chunk(x), module=together).rows
    case.same_rows("y of the stacked cell", expected, actual)
    case.same_gradients("the stacked cell", case.gradients(expected, weights, x), case.gradients(actual, weights, x))


def handing_over(build: Build, sizes: Sizes) -> None:
    """The final state of one recurrence, passed as a memory's `final`, is the initial state of another."""
    case = Case("handing over", lambda s: Recurrent(build(s)), sizes).settle()
    x, more = case.draw(), Chunk(case.draw())
    state = case.read(Chunk(x)).state
    started = case.module.initial_state(sizes.batch, Memory(None, None, state.cell), like=x)
    case.same_rows(
        "y from a memory's final state", case.read(more, state=state).rows, case.read(more, state=started).rows
    )


def late_features(build: Build, sizes: Sizes) -> None:
    """Features added at each step (`late_inputs`) have the same effect as features that are present from the start."""
    case = Case("late features", build, sizes)
    case.module.eval()
    cell, x = case.module, case.draw()
    early = unbind_steps(cell.early_inputs(x[..., : sizes.input_dim // 2]), sizes.length)
    state = late = cell.initial_state(sizes.batch, like=x)
    for t, inputs in enumerate(unbind_steps(cell.inputs(x), sizes.length)):
        y, state = cell(inputs, state)
        y_late, late = cell(cell.late_inputs(early[t], x[:, t, sizes.input_dim // 2 :]), late)
        case.same(f"y at position {t} when half of x comes late", y, y_late, axes=("row", "feature"))


def outline(tree: Tree) -> str:
    """Return the structure of a tree: its containers, and the shape of every tensor."""
    if isinstance(tree, Tensor):
        return str(tuple(tree.shape))
    if tree is None:
        return "None"
    parts = (
        [f"{name}: {outline(part)}" for name, part in tree.items()]
        if isinstance(tree, dict)
        else [outline(part) for part in tree]
    )
    return f"{type(tree).__name__}({', '.join(parts)})"


def _check_input(case: Case, leaf: Tensor) -> None:
    if tuple(leaf.shape[:2]) != (case.sizes.batch, case.sizes.length):
        case.fail(
            f"inputs(x) returned a tensor of shape {tuple(leaf.shape)}; its shape must begin with (batch, length); wrap"
            " a tensor without length in Fixed"
        )


CELL_LAWS: dict[str, Law] = {
    "contract": cell_contract,
    "remembering": remembering,
    "stacking": stacking,
    "handing over": handing_over,
    "late features": late_features,
}
