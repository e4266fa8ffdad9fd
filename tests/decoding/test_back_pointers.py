import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.decoding.back_pointers import Ended, best_of, histories

VOCABULARY, BEAMS = 10, 2


def choice(beam: int, token: int, sentence: int = 0) -> int:
    return (sentence * BEAMS + beam) * VOCABULARY + token


def test_tokens_are_read_from_the_last_choice_to_the_first():
    # Beam 0 writes 1 and beam 1 writes 2; both continue from beam 1, with 3 and 4; then 5 follows 4, and 6 follows 3.
    trail = torch.tensor([[[choice(0, 1), choice(0, 2)], [choice(1, 3), choice(1, 4)], [choice(1, 5), choice(0, 6)]]])
    lengths, last = (
        torch.tensor([[3, 3, 2, 1]]),
        torch.tensor([[choice(0, 7), choice(1, 8), choice(0, 9), choice(0, 7)]]),
    )
    tokens = histories(trail, lengths, last, VOCABULARY)[0].tolist()
    assert [row[:length] for row, length in zip(tokens, lengths[0].tolist(), strict=True)] == [
        [2, 3, 7],
        [2, 4, 8],
        [1, 9],
        [7],
    ]


def test_a_sentence_moved_to_another_row_keeps_its_tokens():
    trail = torch.tensor(
        [[[choice(0, 1, sentence=3), choice(0, 2, sentence=3)], [choice(1, 3, sentence=0), choice(0, 4, sentence=0)]]]
    )
    tokens = histories(trail, torch.tensor([[2, 2]]), torch.tensor([[choice(1, 5), choice(0, 6)]]), VOCABULARY)
    assert tokens.tolist() == [[[2, 5], [1, 6]]]


def test_no_steps_give_no_tokens():
    nothing = torch.zeros(3, 2, dtype=torch.long)
    assert histories(torch.zeros(3, 0, BEAMS, dtype=torch.long), nothing, nothing, VOCABULARY).shape == (3, 2, 0)


def test_the_best_of_several_groups_keep_all_their_fields():
    first = Ended(
        torch.tensor([[-1.0, -4.0]]), torch.tensor([[-2.0, -8.0]]), torch.tensor([[2, 2]]), torch.tensor([[11, 12]])
    )
    second = Ended(
        torch.tensor([[-3.0, -0.5]]), torch.tensor([[-9.0, -1.5]]), torch.tensor([[3, 3]]), torch.tensor([[21, 22]])
    )
    best = best_of([first, second], 3)
    assert [part.tolist() for part in best] == [
        [[-0.5, -1.0, -3.0]],
        [[-1.5, -2.0, -9.0]],
        [[3, 2, 3]],
        [[22, 11, 21]],
    ]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 9999), steps=st.integers(1, 40), hypotheses=st.integers(1, 4))
def test_long_histories_equal_those_followed_step_by_step(seed, steps, hypotheses):
    generator = torch.Generator().manual_seed(seed)
    trail = torch.randint(0, 3 * BEAMS * VOCABULARY, (3, steps, BEAMS), generator=generator)
    lengths = torch.randint(0, steps + 1, (3, hypotheses), generator=generator)
    choices = torch.randint(0, 3 * BEAMS * VOCABULARY, (3, hypotheses), generator=generator)
    tokens = histories(trail, lengths, choices, VOCABULARY)
    for sentence in range(3):
        for place, length in enumerate(lengths[sentence].tolist()):
            last, walked = int(choices[sentence, place]), []
            for step in reversed(range(length)):
                walked.insert(0, last % VOCABULARY)
                last = int(trail[sentence, step - 1, last // VOCABULARY % BEAMS])
            assert tokens[sentence, place, :length].tolist() == walked
