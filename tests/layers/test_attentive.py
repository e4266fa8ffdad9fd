import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.core.state import select_rows
from clew.core.types import Memory
from clew.layers.attentive import AttentiveCell
from clew.layers.cells import GRU, LSTM, Elman, StackedCell
from clew.layers.recurrent import Recurrent
from clew.layers.scores import Additive, Dot
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise
from tests.references.attention import additive
from tests.references.cells import affine

LENGTHS = [4, 2]


def attentive(cell=None):
    return randomise(AttentiveCell(2, 3, cell or Elman(5, 4), Additive(4, 3)))


def memory(mask=True):
    return Memory(randn(2, 4, 3, seed=5), torch.arange(4) < torch.tensor(LENGTHS)[:, None] if mask else None)


def test_an_attentive_cell_equals_bahdanaus_equations_in_values_and_gradients():
    cell = attentive()
    layer, mask = Recurrent(cell), memory().mask

    def reference(p, x, values):
        of_score = {name.removeprefix("attention.score."): value for name, value in p.items()}

        def step(inputs, state):
            return np.tanh(affine(p["cell.input_weight"], inputs) + affine(p["cell.hidden_weight"], state) + p["cell.bias"])

        places = [row[:n] for row, n in zip(values, LENGTHS, strict=True)]
        return parts.bahdanau(p, x, places, lambda s, h: additive(of_score, s, h, 0), step, np.zeros(4))

    assert_agrees(
        cell,
        lambda x, values: layer(x, None, layer.initial_state(2, Memory(values, mask), like=x))[0],
        reference,
        randn(2, 3, 2),
        memory().values,
    )


@pytest.mark.parametrize("cell", [LSTM(5, 4), GRU(5, 4), StackedCell([LSTM(5, 6), GRU(6, 4)])], ids=["lstm", "gru", "stack"])
def test_an_attentive_decoder_reads_step_by_step_as_it_reads_at_once(cell):
    layer = Recurrent(attentive(cell))
    x = randn(2, 5, 2)
    whole, _ = layer(x, None, layer.initial_state(2, memory(), like=x))
    state, steps = layer.initial_state(2, memory(), like=x), []
    for t in range(5):
        y, state = layer(x[:, t : t + 1], None, state)
        steps.append(y)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_beams_that_share_a_row_of_memory_equal_beams_with_a_row_each():
    layer = Recurrent(attentive(LSTM(5, 4)))
    x, each = randn(6, 3, 2), Memory(memory().values.repeat_interleave(3, 0), memory().mask.repeat_interleave(3, 0))
    shared, state = layer(x, None, layer.initial_state(6, memory(), like=x))
    repeated, state_each = layer(x, None, layer.initial_state(6, each, like=x))
    torch.testing.assert_close(shared, repeated)
    order = torch.tensor([2, 0, 0, 5, 5, 3])
    chosen, _ = layer(x[order], None, select_rows(state, order))
    expected, _ = layer(x[order], None, select_rows(state_each, order, memory_rows=order))
    torch.testing.assert_close(chosen, expected)


def test_a_memorys_padding_is_not_attended_to():
    layer = Recurrent(attentive())
    x, changed = randn(2, 3, 2), memory().values.clone()
    changed[1, 2:] = 1e6
    first, _ = layer(x, None, layer.initial_state(2, memory(), like=x))
    second, _ = layer(x, None, layer.initial_state(2, memory()._replace(values=changed), like=x))
    torch.testing.assert_close(first, second)


def test_a_memorys_final_state_starts_the_decoder_and_is_its_first_query():
    layer = Recurrent(attentive())
    x, final = randn(2, 1, 2), randn(2, 4, seed=7).requires_grad_()
    y, _ = layer(x, None, layer.initial_state(2, memory()._replace(final=final), like=x))
    (gradient,) = torch.autograd.grad(y[..., 4:].sum(), final)
    assert bool((gradient != 0).any())


def test_mistakes_are_told_in_a_sentence():
    with pytest.raises(UserError, match=r"an attentive cell hands its inner cell \[x; context\] of width 5, but it takes 4"):
        AttentiveCell(2, 3, Elman(4, 4), Dot(4, 3))
    with pytest.raises(UserError, match="an attentive decoder needs something to attend to; give initial_state a memory"):
        Recurrent(attentive()).initial_state(2, like=torch.zeros(1))
