import pytest
import torch

from clew.decoding.looks import LOOK, Look, looks_every, one_ahead, sent

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_a_look_has_the_value_at_its_creation(device):
    number = torch.tensor(2.5, device=device)
    look = Look(number * 2)
    number.fill_(7)
    assert look() == 5.0


def test_a_gpu_is_read_every_few_steps_and_a_cpu_at_every_step():
    assert looks_every(torch.device("cuda")) == LOOK > 1 == looks_every(torch.device("cpu"))


@pytest.mark.parametrize("count", [0, 1, 4])
def test_an_item_is_yielded_after_the_next_one_was_produced(count):
    produced = []

    def items():
        for number in range(count):
            produced.append(number)
            yield number

    received = [(item, len(produced)) for item in one_ahead(items())]
    assert received == [(number, min(number + 2, count)) for number in range(count)]


@pytest.mark.parametrize("device", DEVICES)
def test_sent_numbers_arrive_unchanged(device):
    arrived = []
    for number in range(20):
        numbers = torch.full((3,), number, dtype=torch.float64)
        arrived.append(sent(numbers, torch.device(device)))
        del numbers  # its memory may be reused
    assert [numbers.tolist() for numbers in arrived] == [[float(number)] * 3 for number in range(20)]
