import pytest
import torch
from torch import nn

from clew.layers.norms import NORMS, LayerNorm, RMSNorm
from tests.references import parts
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_equals_its_equation_in_values_and_gradients(name):
    norm = randomise(NORMS[name](4))
    assert_agrees(norm, norm, parts.NORMS[name], randn(2, 3, 4))


@pytest.mark.parametrize(
    ("ours", "theirs"), [(LayerNorm(4), nn.LayerNorm(4)), (RMSNorm(4), nn.RMSNorm(4, eps=1e-5))], ids=["layer", "rms"]
)
def test_a_norm_equals_torch(ours, theirs):
    theirs.double().load_state_dict(randomise(ours).state_dict())
    x = 10 * randn(2, 3, 4) + 5
    torch.testing.assert_close(ours(x), theirs(x))
