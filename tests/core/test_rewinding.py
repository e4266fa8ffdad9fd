import pytest
import torch

from clew.core.errors import UserError
from clew.core.masks import Clock, new_clock
from clew.core.rewinding import forget, mark, restore, rewind
from clew.core.types import Memory
from clew.decoding.sliding import Sliding
from clew.decoding.trees import TreeConstraint, TreeTokens
from clew.laws.cases import Case, Sizes
from clew.layers.attending.caches import RING_CHUNK
from clew.layers.attention import SelfAttention
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.sequence import Stack
from tests.decoding import steppers

MEMORY = Memory(torch.ones(1, 2, 3))


def at(*counts):
    return Clock(torch.tensor(counts), *new_clock(len(counts), torch.device("cpu"))[1:])


def test_parts_that_count_positions_forget_later_ones():
    place = mark((at(5, 3), [None, MEMORY]))
    state = forget(place, (at(9, 7), [None, MEMORY]), torch.tensor([4, 4]), torch.tensor([1, 4]))
    assert state[0].count.tolist() == [6, 7]
    assert state[1][1] is MEMORY


@pytest.mark.parametrize("state", [(at(9), torch.zeros(1, 2)), (at(3),), (at(9), at(9))])
def test_overwritten_and_restarted_states_cannot_forget(state):
    assert forget(mark((at(5),)), state, torch.tensor([4]), torch.tensor([1])) is None


def test_a_mark_survives_in_place_writes():
    state = (torch.zeros(1, 2), at(5))
    place = mark(state)
    state[0].add_(1)
    state[1].count.add_(1)
    restored = restore(place)
    assert restored[0].tolist() == [[0, 0]]
    assert restored[1].count.tolist() == [5]


def test_a_completely_kept_chunk_is_not_read_again():
    calls = []

    def reader(inputs, mask, state):
        calls.append(inputs.shape[1])
        return inputs, (state[0] + inputs.sum(1),)

    x, state = torch.ones(2, 3), (torch.zeros(2),)
    place = mark(state)
    state = reader(x, None, state)[1]
    assert rewind(reader, place, state, x, None, torch.tensor([3, 3])) is state
    assert rewind(reader, place, state, x, None, torch.tensor([0, 0]))[0].tolist() == [0, 0]
    assert calls == [3]
    assert rewind(reader, place, state, x, None, torch.tensor([2, 2]))[0].tolist() == [2, 2]
    assert calls == [3, 2]


def logits_after(reader, state, x):
    return reader(x, None, state)[0]


@pytest.mark.parametrize("window", [0, 3, 40])
@pytest.mark.parametrize("recurrent", [False, True])
def test_a_full_ring_can_be_rewound_by_a_whole_chunk(window, recurrent):
    def build(sizes):
        layers = [SelfAttention(4, 2, window=window)] + ([Recurrent(LSTM(4, 4))] if recurrent else [])
        return Stack(layers)

    case = Case("ring", build, Sizes(2, 1, 4, 4))
    x = case.draw(length=400)
    with torch.no_grad():
        for begun, read in (([150, 90], RING_CHUNK), ([150, 200], 9)):
            kept = [case.randint(0, read) for _ in begun]
            state = case.read(*case.cut(x, [begun]), state=case.start(2, 1000)).state
            chunk = case.draw(length=read)
            place = mark(state)
            _, state = case.module(chunk, None, state)
            state = rewind(case.module, place, state, chunk, None, torch.tensor(kept))
            more = case.draw(length=5)
            expected = case.read(*case.cut(x, [begun]), *case.cut(chunk, [kept]))
            case.same("y", logits_after(case.module, expected.state, more), logits_after(case.module, state, more))


def test_a_chunk_too_long_for_a_ring_to_forget_is_rejected():
    layer = SelfAttention(4, 2, window=3)
    x = torch.randn(1, 100, 4)
    with torch.no_grad():
        _, state = layer(x, None, layer.initial_state(1, capacity=300, like=x))
        place, chunk = mark(state), torch.randn(1, RING_CHUNK + 6, 4)
        _, state = layer(chunk, None, state)
        with pytest.raises(UserError) as error:
            rewind(layer, place, state, chunk, None, torch.tensor([2]))
    assert str(error.value) == (
        "a windowed cache can be rewound by 64 positions, but row 0 would go back further; "
        "read shorter chunks, or keep a copy_state of the state"
    )


@pytest.mark.parametrize(
    "build", [lambda: SelfAttention(4, 2), lambda: SelfAttention(4, 2, window=2), lambda: Recurrent(LSTM(4, 4))]
)
def test_a_chunk_with_new_documents_can_be_rewound(build):
    case = Case("documents", lambda sizes: build(), Sizes(2, 1, 4, 4))
    x, more = case.draw(length=6), case.draw(length=2)
    mask, kept = torch.tensor([[1, 1, 2, 2, 3, 3], [1, 2, 3, 3, 3, 0]]), torch.tensor([3, 1])
    cut = torch.where(torch.arange(3) < kept[:, None], mask[:, :3], 0)
    with torch.no_grad():
        for capacity in (None, 20, 256):
            state = case.start(2, capacity)
            place = mark(state)
            _, state = case.module(x, mask, state)
            state = rewind(case.module, place, state, x, mask, kept)
            _, expected = case.module(x[:, :3], cut, case.start(2, capacity))
            case.same("y", logits_after(case.module, expected, more), logits_after(case.module, state, more))


WORDS = TreeTokens(opens=[2, 3], closes=[4, 5], words=[6], start=0, end=1)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Sliding(steppers.Recurrent(9, 3, positions=4), limit=4, keep=2),
        lambda: Sliding(steppers.Attending(9, 3), limit=4, keep=2),
        lambda: TreeConstraint(steppers.Recurrent(9, 3), tokens=WORDS, lengths=torch.tensor([2, 3]), max_length=12),
    ],
)
@pytest.mark.parametrize("kept", [[0, 3], [5, 1], [4, 4]])
def test_steppers_with_their_own_history_are_rewound(build, kept):
    stepper, counts = build(), torch.tensor(kept)
    first, chunk, more = (
        torch.tensor([[0, 2, 6], [0, 3, 6]]),
        torch.tensor([[2, 6, 4, 6, 4], [6, 5, 2, 6, 4]]),
        torch.tensor([[6], [2]]),
    )
    _, state = stepper(first, None, stepper.initial_state(2, 20))
    place = mark(state)
    _, state = stepper(chunk, None, state)
    actual, _ = stepper(more, None, rewind(stepper, place, state, chunk, None, counts))
    for row in range(2):
        alone = build()
        if isinstance(alone, TreeConstraint):
            alone = TreeConstraint(alone.stepper, tokens=WORDS, lengths=alone.lengths[row : row + 1], max_length=12)
        tokens_read = torch.cat([first[row], chunk[row, : kept[row]], more[row]])[None]
        expected, _ = alone(tokens_read, None, alone.initial_state(1, 20))
        torch.testing.assert_close(actual[row, -1], expected[0, -1])
