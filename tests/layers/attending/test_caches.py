import torch

from clew.core.masks import advance, new_clock
from clew.layers.attending.caches import Chunk, new_buffer, start_cache
from tests.references.agreement import randn

MASKS = [torch.tensor([[True, True], [True, False]]), torch.tensor([[True, False], [True, True]])]


def chunks(clock):
    for seed, mask in enumerate(MASKS):
        keys = randn(2, 1, 2, 3, seed=seed)
        places, clock = advance(clock, mask, keys[:, 0])
        yield keys, Chunk(places, clock, mask, window=None)


def test_a_buffer_puts_the_key_of_position_p_in_slot_p_plus_one():
    cache = new_buffer(2, 1, 4, 3, new_clock(2, torch.device("cpu")), randn(1))
    appended = list(chunks(cache.clock))
    for keys, chunk in appended:
        cache = cache.extend(keys, 2 * keys, chunk).cache
    first, second = appended[0][0], appended[1][0]
    assert cache.index.tolist() == [[-1, 0, 1, 2, 3]] * 2
    assert cache.clock.count.tolist() == [3, 3]
    assert torch.equal(cache.keys[0, 1:4, 0], torch.stack([first[0, 0, 0], first[0, 0, 1], second[0, 0, 0]]))
    assert torch.equal(cache.keys[1, 1:4, 0], torch.stack([first[1, 0, 0], second[1, 0, 0], second[1, 0, 1]]))
    assert torch.equal(cache.values, 2 * cache.keys)


def test_a_growing_cache_keeps_the_position_of_each_key():
    cache = None
    for keys, chunk in chunks(None):
        cache = (start_cache if cache is None else cache.extend)(keys, keys, chunk).cache
    assert cache.key_index.tolist() == [[0, 1, 2, -1], [0, -1, 1, 2]]
    assert cache.rewind(torch.tensor([1, 2])).key_index.tolist() == [[0, -1, -1, -1], [0, -1, 1, -1]]
    assert cache.rewind(torch.tensor([1, 2])).clock.count.tolist() == [1, 2]


def test_a_cache_of_unpadded_chunks_needs_no_index():
    keys = randn(2, 1, 3, 4)
    places, clock = advance(None, None, keys[:, 0])
    cache = start_cache(keys, keys, Chunk(places, clock, mask=None, window=None)).cache
    assert cache.index is None
    assert cache.key_index.tolist() == [[0, 1, 2]] * 2
