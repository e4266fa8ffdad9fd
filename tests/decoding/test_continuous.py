"""Rows that join and leave a running batch generate the same as alone."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.core.state import leaves
from clew.decoding import continuous
from clew.decoding.choosing import Choice, Kinds
from clew.decoding.continuous import CHUNK, JOINS_EVERY, MANY, TURN, Continuous, Row, RowRequest, divided
from clew.decoding.engine import forget_graphs
from clew.decoding.filters import with_filters
from clew.decoding.prefixes import BLOCK_BYTES, ENTRY_BYTES, Prefixes
from clew.decoding.sampling import Sequences, greedy_sequences, sample_sequences
from clew.decoding.sliding import Sliding
from clew.decoding.stepper import Stepper
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from tests.decoding.steppers import Recurrent, Transition

VOCABULARY = 11
BODIES = {
    "lstm": ("recurrent", {"cell": "lstm", "dim": 8, "num_layers": 2}),
    "gru": ("recurrent", {"cell": "gru", "dim": 8}),
    "gpt": ("gpt", {"dim": 8, "num_layers": 2, "num_heads": 2, "max_length": 48}),
    "llama": ("llama", {"dim": 8, "num_layers": 2, "num_heads": 2}),
    "mixed": ("mixed", {"dim": 8, "layers": ["lstm", {"name": "attention", "num_heads": 2}, "gru"]}),
    "windowed": ("mixed", {"dim": 8, "layers": [{"name": "attention", "num_heads": 2, "window": 5}, "lstm"]}),
}
CHOICES = [
    Choice(is_greedy=True),
    Choice(),
    Choice(temperature=0.6),
    Choice(top_k=3),
    Choice(temperature=1.4, top_k=5, top_p=0.9),
    Choice(top_p=0.7),
    Choice(banned=4),
]


@pytest.fixture(autouse=True)
def graphs_forgotten() -> Iterator[None]:
    yield
    forget_graphs()


def body_stepper(name: str) -> tuple[Stepper, int | None]:
    """A small model whose distributions are far from uniform, and its number of positions."""
    torch.manual_seed(3)
    family, options = BODIES[name]
    body = MODELS[family].build(MODELS[family].config(**options), Tokens(VOCABULARY))
    for parameter in body.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(2.0)
    return Headless(body), body.max_length


class Headless:
    """A body whose vectors become log-probabilities through a fixed matrix."""

    def __init__(self, body):
        self.body = body.eval()
        self.vocabulary = VOCABULARY
        self.output = torch.randn(VOCABULARY, body.dim, generator=torch.Generator().manual_seed(1))
        self.read = 0

    def initial_state(self, rows, capacity=None):
        return self.body.initial_state(rows, capacity=capacity)

    def __call__(self, tokens, mask, state, at=None):
        self.read += tokens.numel() if mask is None else int(mask.sum())
        hidden, state = self.body(tokens, mask, state)
        hidden = hidden if at is None else hidden[torch.arange(len(at))[:, None], at]
        return (hidden @ self.output.T).log_softmax(-1), state


def alone(stepper: Stepper, request: RowRequest, limit: int | None) -> Sequences:
    choice = request.choice
    if limit is not None and len(request.prompt) + request.max_new > limit:
        stepper = Sliding(stepper, limit, limit // 2)
    banned = () if choice.banned is None else (choice.banned,)
    stepper = with_filters(
        stepper, temperature=choice.temperature, top_k=choice.top_k, top_p=choice.top_p, banned=banned
    )
    prompt, end = torch.tensor([list(request.prompt)]), list(request.ends)
    if choice.is_greedy:
        return greedy_sequences(stepper, prompt, max_new=request.max_new, end=end)
    return sample_sequences(
        stepper, prompt, max_new=request.max_new, end=end, seed=request.seed, row_numbers=[request.number]
    )


def random_requests(count: int, seed: int = 0) -> list[RowRequest]:
    """Requests that differ from each other; every third has a shared prefix."""
    rnd = random.Random(seed)
    shared = [rnd.randrange(VOCABULARY) for _ in range(40)]
    requests = []
    for number in range(count):
        length = rnd.randint(1, 40)
        prompt = shared[:length] if number % 3 == 0 else [rnd.randrange(VOCABULARY) for _ in range(length)]
        ends = (7,) if number % 2 else ()
        requests.append(
            RowRequest(
                prompt, rnd.choice([1, 5, 20, 40]), ends, CHOICES[number % len(CHOICES)], seed=number % 4, number=number
            )
        )
    return requests


class One(NamedTuple):
    """A token that a row has generated."""

    row: Row
    token: int
    log_prob: float
    plain: float
    alternatives: list[tuple[int, float]]
    ended: str | None
    error: Exception | None


def advanced(batch: Continuous) -> list[One]:
    """The tokens generated until the batch's results are read."""
    tokens_written = []
    for row, tokens, log_probs, plain, alternatives, ended, error in batch.advance():
        for place, token in enumerate(tokens):
            candidates = alternatives[place] if alternatives else []
            tokens_written.append(
                One(
                    row,
                    token,
                    log_probs[place],
                    plain[place],
                    candidates,
                    ended if place == len(tokens) - 1 else None,
                    None,
                )
            )
        if error is not None:
            tokens_written.append(One(row, -1, 0.0, 0.0, [], ended, error))
    return tokens_written


def written_by(batch: Continuous, coming: list[RowRequest], seed: int = 0, most: int = 3) -> list[list[One]]:
    """The tokens of each row, with a few rows joining at a time."""
    rnd, rows, by_row = random.Random(seed), list[Row](), dict[Row, list[One]]()
    waiting = list(coming)
    while waiting or not batch.is_idle:
        for _ in range(rnd.randint(0, most) if waiting else 0):
            if waiting:
                rows.append(batch.join(waiting.pop(0)))
        for each in advanced(batch):
            by_row.setdefault(each.row, []).append(each)
    return [by_row[row] for row in rows]


@pytest.mark.parametrize("pads", [False, True], ids=["", "padded as on a GPU"])
@pytest.mark.parametrize("shares", [False, True], ids=["reading all", "sharing prefixes"])
@pytest.mark.parametrize("name", BODIES)
def test_rows_of_a_running_batch_equal_single_rows(name: str, shares: bool, pads: bool) -> None:
    stepper, limit = body_stepper(name)
    coming = random_requests(9)
    batch = Continuous(stepper, most_rows=4, limit=limit, prefixes=Prefixes(8, 10**7) if shares else None)
    batch.pads = pads
    for request, written in zip(coming, written_by(batch, coming), strict=True):
        expected = alone(stepper, request, limit)
        assert [each.token for each in written] == expected.tokens[0].tolist()[: int(expected.lengths[0])], request
        assert [each.log_prob for each in written] == pytest.approx(
            expected.log_probs[0].tolist()[: len(written)], abs=1e-3
        )
        assert written[-1].ended == ("end" if written[-1].token in request.ends else "length")
        assert all(each.ended is None for each in written[:-1])
    batch.rest()
    assert batch.running is None and batch.slots == []


def test_many_rows_read_every_few_steps_end_where_each_does_alone() -> None:
    stepper, limit = body_stepper("gpt")
    coming = [request._replace(max_new=min(request.max_new, 14)) for request in random_requests(MANY + 4, seed=2)]
    batch = Continuous(stepper, most_rows=32, limit=limit)
    written_rows = written_by(batch, coming, most=len(coming))
    assert batch.steps < sum(map(len, written_rows)) / 4
    for request, written in zip(coming, written_rows, strict=True):
        expected = alone(stepper, request, limit)
        assert [each.token for each in written] == expected.tokens[0].tolist()[: int(expected.lengths[0])], request
        assert written[-1].ended == ("end" if written[-1].token in request.ends else "length")


def test_a_taped_step_generates_the_same() -> None:
    from tests.instruments.small_runs import small_run

    task = small_run("lstm").task
    assert isinstance(task, LanguageModel) and task.stepper().signature is not None
    coming = [RowRequest([1 + number % 9, 2], 40, (), Choice(), seed=number) for number in range(4)]
    batch = Continuous(task.stepper(), most_rows=4)
    for request, written in zip(coming, written_by(batch, coming, most=4), strict=True):
        assert [each.token for each in written] == alone(task.stepper(), request, None).tokens[0].tolist()


def test_shared_prefixes_of_prompts_are_read_once() -> None:
    for name in ("lstm", "llama", "windowed"):
        stepper, _ = body_stepper(name)
        shared = [number % VOCABULARY for number in range(64)]
        coming = [RowRequest([*shared, number, 3], 4, (), Choice(is_greedy=True)) for number in range(6)]
        read = {}
        for prefixes in (None, Prefixes(8, 10**7)):
            batch = Continuous(stepper, most_rows=8, prefixes=prefixes)
            stepper.read = 0
            texts = [[each.token for each in row] for row in written_by(batch, coming, most=6)]
            read[prefixes is None] = (texts, batch.num_read, stepper.read)
        assert read[True][0] == read[False][0]
        assert read[True][1] == 6 * 65 and read[False][1] == 64 + 6, name
        assert read[True][2] - read[False][2] == 5 * 64


def test_prefixes_are_limited_in_bytes_and_the_oldest_are_dropped_first() -> None:
    stepper, _ = body_stepper("llama")
    prefixes = Prefixes(8, 40_000)
    batch = Continuous(stepper, prefixes=prefixes)
    prompts = [[number] * 33 for number in range(VOCABULARY)]
    for prompt in prompts:
        written_by(batch, [RowRequest(prompt, 1)])
        assert 0 < prefixes.num_bytes <= prefixes.most_bytes
        entries = prefixes.entries.values()
        slabs = {id(place.slab): place.slab for entry in entries for place in (entry.tensors, *entry.overwritten)}
        in_slabs, in_objects = sum(slab.memory.nbytes for slab in slabs.values()), len(entries) * ENTRY_BYTES
        assert prefixes.num_bytes == in_slabs + in_objects + BLOCK_BYTES * len(prefixes.places)
    is_kept = [prefixes.find(prefixes.digests(prompt)) is not None for prompt in prompts]
    # the last ones, and none older than a dropped one
    assert is_kept == sorted(is_kept) and is_kept[-1] and not is_kept[0]
    oldest = prompts[is_kept.index(True)]
    prefixes.find(prefixes.digests(oldest))  # used again, it is no longer the oldest
    written_by(batch, [RowRequest([1, 2] * 17, 1)])
    assert prefixes.find(prefixes.digests(oldest)) is not None
    written_by(Continuous(stepper, prefixes=(too_small := Prefixes(8, 10))), [RowRequest(prompts[0], 1)])
    assert too_small.num_bytes == 0 and not too_small.entries


def test_two_rows_that_have_read_the_same_block_can_both_be_dropped_from_the_cache() -> None:
    stepper, _ = body_stepper("llama")
    prefixes = Prefixes(8, 40_000)
    batch = Continuous(stepper, most_rows=4, prefixes=prefixes)
    batch.join(RowRequest([1] * 8 + [2] * 25, 1))
    batch.advance()  # has read the shared block, and not yet shared it
    written_by(batch, [RowRequest([1] * 8 + [3] * 25, 1)])
    for number in range(4, VOCABULARY):
        written_by(batch, [RowRequest([number] * 33, 1)])
    assert prefixes.find(prefixes.digests([1] * 8 + [2] * 25)) is None


def test_a_state_that_is_large_is_not_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    stepper, _ = body_stepper("llama")
    for most, num_rows in [(2**26, 16), (0, 3)]:
        monkeypatch.setattr(continuous, "MOST_PADDED", most)
        batch = Continuous(stepper)
        batch.pads = True
        rows = [batch.join(RowRequest([number] * 20, 1)) for number in range(1, 4)]
        batch._read()
        assert rows[0].part is not None and len(leaves(rows[0].part.of)[0]) == num_rows


def test_a_batch_notices_that_its_model_has_changed_while_it_was_empty() -> None:
    from tests.instruments.small_runs import small_run

    task = deepcopy(small_run("lstm").task)
    assert isinstance(task, LanguageModel)
    batch = Continuous(task.stepper(), most_rows=4)
    request = RowRequest([1, 2], 20, (), Choice(is_greedy=True))
    before = [each.token for each in written_by(batch, [request])[0]]
    with torch.no_grad():
        for module in task.modules():
            for name, weight in list(module._parameters.items()):
                if weight is not None:
                    setattr(module, name, nn.Parameter(torch.randn_like(weight)))
    after = [each.token for each in written_by(batch, [request])[0]]
    assert after == alone(task.stepper(), request, None).tokens[0].tolist() != before
    task.double()
    expected = alone(task.stepper(), request, None).tokens[0].tolist()
    assert [each.token for each in written_by(batch, [request])[0]] == expected


def test_an_empty_batch_becomes_small_at_once() -> None:
    stepper, _ = body_stepper("lstm")
    batch = Continuous(stepper, most_rows=16)
    for _ in range(16):
        batch.join(RowRequest([1], 3))
    while not batch.is_idle:
        batch.advance()
    assert len(batch.slots) == 16
    batch.join(RowRequest([1], 3))
    batch.advance()
    assert len(batch.slots) == 1
    batch.close()


def test_a_long_row_does_not_hold_up_short_ones() -> None:
    stepper = Recurrent(VOCABULARY, seed=1, positions=4096)
    batch = Continuous(stepper, most_rows=2)
    long = [batch.join(RowRequest([1], 1000)) for _ in range(5)]
    for _ in range(3):
        batch.advance()
    short = batch.join(RowRequest([2], 5))
    tokens_written: list[One] = []
    before = batch.steps
    while not any(each.row is short and each.ended for each in tokens_written):
        tokens_written += advanced(batch)
    # Both slots were taken, and three long rows were waiting: its turn comes after each pair of rows has had one.
    assert batch.steps - before <= 3 * (TURN + JOINS_EVERY) + 5
    assert all(row.num_new < 1000 for row in long)
    batch.close()


def test_a_long_prompt_is_read_between_the_steps_of_others() -> None:
    stepper = Recurrent(VOCABULARY, seed=1, positions=10_000)
    batch = Continuous(stepper, most_rows=4)
    other_row = batch.join(RowRequest([1], 400))
    batch.advance()
    reading = batch.join(RowRequest([3] * (20 * CHUNK), 1))
    while reading.left:
        before, left = other_row.num_new, reading.left
        batch.advance()
        assert other_row.num_new == before + 1 and left - reading.left <= CHUNK
    batch.close()


def test_a_row_that_leaves_stops_at_once_and_the_others_continue() -> None:
    stepper, _ = body_stepper("lstm")
    batch = Continuous(stepper, most_rows=4, prefixes=Prefixes(8, 10**6))
    stays, *leaving = (RowRequest([number + 1], 30, seed=5) for number in range(3))
    row, first, second = batch.join(stays), batch.join(leaving[0]), batch.join(leaving[1])
    written = advanced(batch)
    batch.leave(first)
    batch.leave(second)
    batch.leave(second)
    waits = batch.join(RowRequest([1] * 30, 3))
    batch.leave(waits)
    assert batch.num_rows == 1
    while not batch.is_idle:
        written += advanced(batch)
    assert {each.row for each in written[3:]} == {row}
    assert [each.token for each in written if each.row is row] == alone(stepper, stays, None).tokens[0].tolist()


def test_rows_and_positions_of_a_batch_are_powers_of_two() -> None:
    stepper, _ = body_stepper("llama")
    batch = Continuous(stepper, most_rows=16)
    seen = set()
    for number in range(11):
        batch.join(RowRequest([1] * (1 + 12 * number), 10))
    while not batch.is_idle:
        batch.advance()
        if batch.slots:
            seen.add((len(batch.slots), batch.room))
    assert seen and all(count & (count - 1) == 0 for pair in seen for count in pair), seen


def test_a_batch_that_becomes_small_releases_its_slots() -> None:
    stepper, _ = body_stepper("lstm")
    batch = Continuous(stepper, most_rows=16)
    for number in range(16):
        batch.join(RowRequest([1], 300 if number == 0 else 3))
    batch.advance()
    assert len(batch.slots) == 16
    while not batch.is_idle and len(batch.slots) == 16:
        batch.advance()
    assert len(batch.slots) == 1
    batch.close()


def test_a_way_of_choosing_is_dropped_when_no_row_has_needed_it_for_long() -> None:
    stepper, _ = body_stepper("lstm")
    batch = Continuous(stepper, most_rows=2)
    batch.join(RowRequest([1], 200, (), Choice(is_greedy=True)))
    batch.join(RowRequest([1], 2, (), Choice(temperature=0.5)))
    batch.advance()
    assert batch.kinds == Kinds(draws=True, tempers=True)
    while batch.kinds.draws and not batch.is_idle:
        if batch.num_rows == 1:
            batch.join(RowRequest([1], 1, (), Choice(is_greedy=True)))
        batch.advance()
    assert batch.kinds == Kinds() and batch.num_rows
    batch.close()


@pytest.mark.parametrize(("count", "most", "first"), [(20, 16, 10), (16, 16, 16), (17, 4, 4), (1, 16, 1), (33, 16, 11)])
def test_steps_are_divided_evenly_between_looks(count: int, most: int, first: int) -> None:
    assert divided(count, most) == first


def test_a_tiny_temperature_is_greedy() -> None:
    stepper, _ = body_stepper("lstm")
    choices = [Choice(temperature=1e-300), Choice(is_greedy=True)]
    rows = written_by(Continuous(stepper), [RowRequest([1], 9, (), choice) for choice in choices])
    tiny, greedy = ([each.token for each in row] for row in rows)
    assert tiny == greedy


def test_a_row_without_a_possible_token_fails_and_others_continue() -> None:
    batch = Continuous(Transition([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 0]]), most_rows=4)
    bad, good = batch.join(RowRequest([2], 5)), batch.join(RowRequest([1], 5))
    tokens_written = []
    while not batch.is_idle:
        tokens_written += advanced(batch)
    [error] = [each for each in tokens_written if each.row is bad]
    assert error.ended == "error" and "no next token of probability above 0" in str(error.error)
    assert [each.token for each in tokens_written if each.row is good] == [1] * 5


def test_alternatives_are_the_most_probable_tokens_of_the_model_itself() -> None:
    batch = Continuous(Transition([[0.1, 0.6, 0.3]] * 3))
    row = batch.join(RowRequest([0], 2, choice=Choice(top_k=1, alternatives=2)))
    plain = batch.join(RowRequest([0], 2))
    tokens_written = [*advanced(batch), *advanced(batch)]
    for each in tokens_written:
        if each.row is row:
            assert [token for token, _ in each.alternatives] == [1, 2]
            assert [2.718281828**log_prob for _, log_prob in each.alternatives] == pytest.approx([0.6, 0.3])
            assert (
                each.token == 1
                and each.log_prob == pytest.approx(0.0, abs=1e-6)
                and 2.718281828**each.plain == pytest.approx(0.6)
            )
        else:
            assert each.row is plain and each.alternatives == []


@pytest.mark.parametrize(
    ("invalid", "sentence"),
    [
        (RowRequest([], 3), "the prompt is empty; a row needs at least one token, such as the start token"),
        (RowRequest([11], 3), "the prompt has a token outside of the vocabulary, which has 11: 0 and up"),
        (RowRequest([1], 0), "max_new (0) must be at least 1"),
        (RowRequest([1] * 9, 3), "the prompt has 9 tokens, and the model takes 8; shorten it"),
        (RowRequest([1], 3, choice=Choice(temperature=0.0)), "temperature (0.0) must be above 0 and finite"),
        (RowRequest([1], 3, choice=Choice(top_k=0)), "top_k (0) must be a whole number of at least 1"),
        (RowRequest([1], 3, choice=Choice(top_p=1.5)), "top_p (1.5) must be above 0 and at most 1"),
        (RowRequest([1], 3, choice=Choice(alternatives=21)), "alternatives (21) must be at least 0 and at most 20"),
    ],
)
def test_invalid_requests_are_rejected(invalid: RowRequest, sentence: str) -> None:
    batch = Continuous(Recurrent(VOCABULARY, seed=1), limit=8)
    with pytest.raises(UserError) as error:
        batch.join(invalid)
    assert sentence in str(error.value)
    assert batch.is_idle
