from functools import lru_cache

import torch

from clew.kernels import capture
from clew.kernels.capture import held_by_graphs


def test_a_capture_holds_what_it_took_from_a_cache():
    made = held_by_graphs(lru_cache(maxsize=1)(torch.zeros))
    assert made(2) is made(2)
    held: list[torch.Tensor] = []
    token = capture._holding.set(held)
    first = made(3)
    made(4)  # the cache has lost the first by now
    capture._holding.reset(token)
    made(5)
    assert held[0] is first and [len(each) for each in held] == [3, 4]
