"""torch recurrences copied into our layers give the same outputs."""

import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.layers.recurrence.torch_recurrent import as_stack


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("build", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_torch_recurrence_and_its_copy_agree_at_every_position(build, bidirectional, bias):
    theirs = build(3, 4, num_layers=2, bidirectional=bidirectional, bias=bias, batch_first=True).double()
    x = torch.randn(2, 5, 3, dtype=torch.double)
    torch.testing.assert_close(as_stack(theirs)(x)[0], theirs(x)[0])


def test_projections_and_nonlinearities_are_copied():
    x = torch.randn(1, 4, 3, dtype=torch.double)
    for theirs in (nn.LSTM(3, 6, proj_size=2, batch_first=True), nn.RNN(3, 4, nonlinearity="relu", batch_first=True)):
        theirs = theirs.double()
        torch.testing.assert_close(as_stack(theirs)(x)[0], theirs(x)[0])


def test_a_recurrence_not_from_torch_is_rejected():
    class Other(nn.RNNBase):
        """A recurrence from another library."""

    with pytest.raises(
        UserError, match="Other is not a supported recurrent module of torch; supported: RNN, LSTM, GRU"
    ):
        as_stack(Other("RNN_TANH", 3, 4))
