"""A block without one of its parts."""

import pytest
import torch

from clew.layers.sequence import SequenceLayer
from clew.tour.barriers import LEFT_OUT, WHOLE, Block, Normed, apart, build_blocks, run


def blocks(block: Block):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return build_blocks(block, 7, dim=8, num_layers=2, max_length=8).eval()


def test_a_norm_without_a_residual_passes_no_input_on() -> None:
    class Nothing(SequenceLayer):
        dim = 4

        def forward(self, x, mask=None, state=None):  # type: ignore[no-untyped-def]
            return torch.zeros_like(x), None

    y, _ = Normed(4, Nothing())(torch.randn(1, 2, 4))
    assert not y.any()


@pytest.mark.parametrize("name", [name for name in LEFT_OUT if name != "no mask"])
def test_only_the_block_without_a_mask_depends_on_later_positions(name: str) -> None:
    tokens = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5]])
    for tried, leaks in ((name, False), ("no mask", True)):
        hidden, _ = blocks(LEFT_OUT[tried].block)(tokens)
        assert torch.allclose(hidden[0, :3], hidden[1, :3], atol=1e-6) is not leaks


def test_leaving_out_any_part_changes_the_output() -> None:
    tokens = torch.tensor([[1, 2, 1, 4]])
    whole, _ = blocks(LEFT_OUT[WHOLE].block)(tokens)
    for name, barrier in LEFT_OUT.items():
        if name != WHOLE:
            assert not torch.allclose(blocks(barrier.block)(tokens)[0], whole, atol=1e-4), name


@pytest.mark.parametrize("seed", [0, 1])
def test_reordered_sentences_are_equal_only_without_positions_and_mask(seed: int) -> None:
    assert apart("none", False, seed) < 1e-5
    assert apart("none", True, seed) > 1e-3
    for position in ("sinusoidal", "rotary", "relative"):
        assert apart(position, False, seed) > 1e-4


def test_alibi_without_a_mask_cannot_distinguish_a_reversed_sentence() -> None:
    assert apart("alibi", False, 0) < 1e-5
    assert apart("alibi", True, 0) > 1e-3


@pytest.mark.slow
def test_a_quick_run_reports_every_part() -> None:
    lines: list[str] = []
    finding = run("quick", 0, lines.append)
    assert [line.split(":")[0] for line in lines] == list(LEFT_OUT)
    assert all(name in finding.measured for name in LEFT_OUT if name not in (WHOLE, "no mask"))
