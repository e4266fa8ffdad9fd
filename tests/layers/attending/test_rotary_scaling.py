from functools import partial

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.laws.cases import Sizes
from clew.laws.sequences import BODY_LAWS
from clew.layers.positions import Rotary
from clew.models.llama import LlamaConfig, build_llama
from clew.sources.tokens import Tokens
from tests.references import attention as references
from tests.references.agreement import randn

SCALED = {
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.0, "original_max_length": 6},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_length": 64},
    "yarn": {"factor": 16.0, "original_max_length": 128},
}


@pytest.mark.parametrize("name", SCALED)
def test_scaled_rotary_positions_equal_their_equation(name):
    options = SCALED[name]
    position = Rotary(12, 1, 12, base=100.0, scaling={"name": name, **options})
    x = randn(1, 2, 9, 12)
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 20, 47]])
    scaling = partial(getattr(references, f"{name}_scaling"), **options)
    expected = np.zeros(x.shape)
    for b, h, t in np.ndindex(1, 2, 9):
        expected[b, h, t] = references.rotated(x[b, h, t].numpy(), int(positions[b, t]), base=100.0, scaling=scaling)
    np.testing.assert_allclose(position.rotate(x, positions), expected, atol=2e-5)
    assert np.abs(expected - Rotary(12, 1, 12, base=100.0).rotate(x, positions).numpy()).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALED)
def test_a_llama_with_scaled_positions_obeys_the_laws_of_bodies(name):
    options = {key: 3 if key == "original_max_length" else value for key, value in SCALED[name].items()}
    config = LlamaConfig(dim=8, num_layers=1, num_heads=2, rotary_scaling={"name": name, **options})
    for law in BODY_LAWS.values():
        law(lambda _: build_llama(config, Tokens(7)), Sizes(2, 7, 0, 0, seed=1))


def test_a_scaling_of_factor_1_changes_nothing_within_the_original_length():
    x, positions = randn(1, 1, 5, 8), torch.arange(5)[None] * 400
    plain = Rotary(8, 1, 8).rotate(x, positions)
    for name in SCALED:
        torch.testing.assert_close(
            Rotary(8, 1, 8, scaling={"name": name, "factor": 1.0}).rotate(x, positions), plain, atol=1e-4, rtol=0
        )


@pytest.mark.parametrize(
    ("scaling", "sentence"),
    [
        ("ntk", "unknown rotary scaling 'ntk'; known: dynamic, linear, llama3, none, yarn"),
        (
            {"name": "linear", "factor": 0.5},
            r"rotary scaling 'linear' stretches positions, so its factor \(0.5\) must be at least 1",
        ),
        (
            {"name": "llama3", "low_freq_factor": 4.0},
            r"'llama3' needs 0 < low_freq_factor \(4\) < high_freq_factor \(4\)",
        ),
        ({"name": "yarn", "slow_turns": 40.0}, r"'yarn' needs 0 < slow_turns \(40\) < fast_turns \(32\)"),
        ({"name": "dynamic", "original_max_length": 0}, "'dynamic' needs an original_max_length of at least 1, not 0"),
        (
            {"name": "linear", "original_max_length": 8},
            "rotary scaling 'linear' has no option 'original_max_length'; its options: factor",
        ),
    ],
)
def test_invalid_scalings_are_rejected_with_a_sentence(scaling, sentence):
    with pytest.raises(UserError, match=sentence):
        Rotary(8, 1, 8, scaling=scaling)


def test_the_correction_of_yarn_needs_several_wavelengths():
    with pytest.raises(
        UserError, match="rotary scaling 'yarn' needs a rotary base above 1, not 1; set one such as 10000"
    ):
        Rotary(8, 1, 8, base=1.0, scaling="yarn")
