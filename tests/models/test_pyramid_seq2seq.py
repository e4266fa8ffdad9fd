"""A pyramid with every kind of attention: the laws of encoder-decoders hold, and a memory has its own mask."""

import pytest
import torch

from tests.crossing import quickly
from tests.models.test_seq2seq import LENGTHS, MASK, SOURCE
from tests.models.translators import build, obeys_every_law

LOOKING = [
    {"attention": "before"},
    {"attention": "after"},
    {"attention": "after", "feeding": False},
    {"attention": "none"},
]


@pytest.mark.parametrize("looking", quickly(LOOKING, LOOKING[0], LOOKING[1]), ids=["before", "fed", "after", "none"])
def test_an_encoder_decoder_over_a_pyramid_obeys_every_law(looking: dict) -> None:
    obeys_every_law(way="bahdanau", encoder_layers=2, pyramid=2, cell="gru", **looking)


def test_a_memory_has_half_of_the_positions_and_its_own_mask() -> None:
    memory = build("bahdanau", encoder_layers=2, pyramid=1).encode(SOURCE, MASK)
    assert memory.mask is not None and memory.values.shape[:2] == memory.mask.shape
    assert memory.mask.sum(1).tolist() == [-(-int(length) // 2) for length in LENGTHS]
    assert (
        build("bahdanau", encoder_layers=2, pyramid=1).encode(SOURCE).mask is None
        and torch.isfinite(memory.values).all()
    )
