import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.layers.cells import LSTM
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import Stack
from clew.layers.shapes.pyramid import Halved, at_every_place, shared_out
from tests.references.agreement import assert_agrees, randn, randomise
from tests.references.pyramid import pyramidal_bilstm


def bilstm(input_dim: int, dim: int) -> Bidirectional:
    return Bidirectional(Recurrent(LSTM(input_dim, dim)), Recurrent(LSTM(input_dim, dim)))


def test_a_pyramidal_bilstm_equals_its_equation_in_values_and_gradients():
    layer = randomise(Halved(bilstm(6, 2)))

    def reference(parameters: dict, x: np.ndarray) -> np.ndarray:
        halves = [
            {name.rpartition(".")[2]: value for name, value in parameters.items() if half in name}
            for half in ("forward_layer", "backward_layer")
        ]
        return np.stack([pyramidal_bilstm(*halves, row) for row in x])

    for length in (4, 5):
        assert_agrees(layer, lambda x: layer(x)[0], reference, randn(2, length, 3))


def test_rows_of_a_pyramid_are_the_same_alone_and_in_a_padded_batch():
    stack = randomise(Stack([bilstm(3, 2), Halved(bilstm(8, 2)), Halved(bilstm(8, 2))]))
    lengths = [9, 4, 1, 7]
    x, mask = randn(4, 9, 3), torch.arange(9) < torch.tensor(lengths)[:, None]
    y, _ = stack(x, mask)
    after = stack.out_mask(mask)
    assert (
        after is not None and after.sum(1).tolist() == [3, 1, 1, 2] and after.shape == y.shape[:2] and stack.stride == 4
    )
    for row, length in enumerate(lengths):
        alone, _ = stack(x[row : row + 1, :length])
        torch.testing.assert_close(y[row, after[row]], alone[0])


def test_a_pyramid_refuses_a_state():
    with pytest.raises(UserError, match="Halved sees the whole sequence at once, so it cannot continue from a state"):
        Halved(bilstm(2, 1))(torch.zeros(1, 2, 1), None, ())


def test_weights_of_halved_positions_are_spread_over_the_original_ones():
    shared = shared_out(torch.tensor([[0.5, 0.3, 0.2]]), 5)
    torch.testing.assert_close(shared, torch.tensor([[0.25, 0.25, 0.15, 0.15, 0.2]]))
    assert at_every_place(torch.tensor([1, 2]), 7).tolist() == [1, 1, 1, 1, 2, 2, 2]
    assert at_every_place(torch.tensor([1, 2, 3]), 3).tolist() == [1, 2, 3]
    with pytest.raises(UserError, match="9 places cannot have been halved to 4"):
        at_every_place(torch.zeros(4), 9)
