from functools import lru_cache

import torch

from clew.kernels import capture
from clew.kernels.capture import held_by_graphs


def test_a_capture_keeps_the_tensors_it_took_from_a_cache():
    cached_zeros = held_by_graphs(lru_cache(maxsize=1)(torch.zeros))
    assert cached_zeros(2) is cached_zeros(2)
    tensors_held: list[torch.Tensor] = []
    token = capture._holding.set(tensors_held)
    first = cached_zeros(3)
    cached_zeros(4)  # the cache has dropped the first one by now
    capture._holding.reset(token)
    cached_zeros(5)
    assert tensors_held[0] is first and [len(each) for each in tensors_held] == [3, 4]
