"""Scanning gives the same result as the loop. Scanned cells are tested with whole programs, in tests/interop."""

import torch

from clew.core.tag_schemes import allowed_transitions
from clew.layers.losses.crf import CRF
from clew.layers.recurrence.scanning import scan_viterbi


def test_scanned_tags_equal_those_of_the_loop() -> None:
    torch.manual_seed(0)
    crf = CRF(5, allowed=allowed_transitions(["B-A", "E-A", "I-A", "O", "S-A"], "bioes")).requires_grad_(False)
    for scores in (crf.transitions, crf.start, crf.end):
        torch.nn.init.normal_(scores)
    emissions = torch.randn(4, 6, 5)
    mask = torch.arange(6) < torch.tensor([[6], [3], [1], [0]])
    best, score = crf.viterbi(emissions, mask)
    chain = crf.chain(emissions, mask)
    tags, scanned = scan_viterbi(chain.emissions, chain.real, chain.transitions, chain.start, chain.end)
    assert torch.equal(tags.masked_fill(~mask, 0), best)
    torch.testing.assert_close(scanned[:3], score[:3])
