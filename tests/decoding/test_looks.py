import pytest
import torch

from clew.decoding.looks import LOOK, Look, looks_every, one_ahead, sent

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_a_look_shows_the_number_as_it_was_then(device):
    number = torch.tensor(2.5, device=device)
    look = Look(number * 2)
    number.fill_(7)
    assert look() == 5.0


def test_a_gpu_is_looked_at_every_few_steps_and_a_cpu_at_each():
    assert looks_every(torch.device("cuda")) == LOOK > 1 == looks_every(torch.device("cpu"))


@pytest.mark.parametrize("count", [0, 1, 4])
def test_an_item_is_given_when_the_one_after_it_has_been_made(count):
    made = []

    def items():
        for number in range(count):
            made.append(number)
            yield number

    seen = [(item, len(made)) for item in one_ahead(items())]
    assert seen == [(number, min(number + 2, count)) for number in range(count)]


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_that_are_sent_arrive_as_they_were(device):
    arrived = []
    for number in range(20):
        numbers = torch.full((3,), number, dtype=torch.float64)
        arrived.append(sent(numbers, torch.device(device)))
        del numbers  # its memory may be used again
    assert [numbers.tolist() for numbers in arrived] == [[float(number)] * 3 for number in range(20)]
