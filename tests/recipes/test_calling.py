import pytest

import clew
from clew.core.errors import UserError


def test_a_grid_from_python_is_rejected_with_the_first_call() -> None:
    with pytest.raises(UserError) as caught:
        clew.train("text-lstm", "model.cell=gru,lstm", "seed=2")
    assert str(caught.value) == (
        "'model.cell=gru,lstm' has several values, a grid of 2 runs, but a call trains one; call train once for each"
        " value, starting with clew.train('text-lstm', 'model.cell=gru', 'seed=2'), or put a value that contains commas"
        " into double quotes"
    )
