"""Small long-lived tensors are stored together in slabs."""

import pytest
import torch

from clew.decoding.slabs import ALIGNMENT, Slabs


def test_stored_tensors_are_unchanged() -> None:
    slabs = Slabs(10_000)
    tensors = [
        torch.randn(3, 5),
        torch.arange(7),
        torch.randn(4, 6).T[1:],
        torch.tensor([[True, False]]),
        torch.randn(2, 3).to(torch.bfloat16),
        torch.empty(2, 0),
        torch.tensor(5, dtype=torch.int16),
        torch.randn(100, 100, dtype=torch.float64),
    ]
    places = [slabs.put([tensor]) for tensor in tensors]
    for place, tensor in zip(places, tensors, strict=True):
        assert place.tensors[0].dtype == tensor.dtype and torch.equal(place.tensors[0], tensor)
    assert len({id(place.slab) for place in places}) == 2  # the last one has its own slab
    assert slabs.bytes == 10_000 + 80_000


def test_stored_tensors_are_copies() -> None:
    slabs, tensor = Slabs(1000), torch.zeros(3)
    place = slabs.put([tensor])
    tensor += 1
    assert place.tensors[0].tolist() == [0, 0, 0]


def test_a_slab_is_freed_with_the_last_tensor_in_it() -> None:
    slabs = Slabs(4 * ALIGNMENT)
    places = [slabs.put([torch.full((ALIGNMENT // 4,), float(number))]) for number in range(9)]
    assert slabs.bytes == 3 * 4 * ALIGNMENT  # with four, four and one tensors
    for number in (0, 2, 1):
        slabs.drop(places[number])
        assert slabs.bytes == 3 * 4 * ALIGNMENT
    slabs.drop(places[3])
    assert slabs.bytes == 2 * 4 * ALIGNMENT
    slabs.drop(places[8])  # the open slab stays, and is filled from its beginning
    later = [slabs.put([torch.full((ALIGNMENT // 4,), 9.0)]) for _ in range(4)]
    assert slabs.bytes == 2 * 4 * ALIGNMENT
    assert [place.tensors[0][0].item() for place in (*places[4:8], *later)] == [4, 5, 6, 7, 9, 9, 9, 9]


@pytest.mark.parametrize("first", [True, False])
def test_slabs_work_inside_and_outside_inference_mode(first: bool) -> None:
    slabs = Slabs(1000)
    for mode in (first, not first):
        with torch.inference_mode(mode):
            assert slabs.put([torch.ones(4)]).tensors[0].sum() == 4


def test_tensors_that_are_put_together_lie_side_by_side() -> None:
    slabs = Slabs(10_000)
    tensors = [torch.randn(3, 5), torch.arange(3), torch.empty(2, 0), torch.randn(4, 6).T[1:]]
    first, second = slabs.put(tensors), slabs.put(tensors)
    assert first.slab is second.slab and first.parts is second.parts and slabs.put([]).tensors == []
    for place in (first, second):
        assert all(map(torch.equal, place.tensors, tensors))
        assert all((place.start + part.start) % ALIGNMENT == 0 for part in place.parts)
