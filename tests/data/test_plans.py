from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.batches import cut_rows, slice_of_part
from clew.core.errors import UserError
from clew.data.plans import (
    ExamplePlan,
    bucket_plan,
    cut_by_budget,
    stream_evaluation_plan,
    stream_plan,
    varied_stream_plan,
    window_evaluation_plan,
    window_plan,
)

sizes = {"num_tokens": st.integers(2, 200), "batch_size": st.integers(1, 9), "length": st.integers(1, 20)}


def batches(plan, num_tokens):
    tokens = np.arange(num_tokens, dtype=np.uint16)
    return [plan.batch(tokens, number) for number in range(plan.num_batches)]


def real(batch, field):
    values = getattr(batch, field)
    return values.flatten().tolist() if batch.mask is None else values[batch.mask].tolist()


def targets(of):
    return Counter(token for batch in of for token in real(batch, "targets"))


def check_batches(of, batch_size, length):
    """Check what holds for every batch of every plan."""
    for batch in of:
        assert batch.tokens.dtype == batch.targets.dtype == torch.int64
        assert batch.tokens.shape == batch.targets.shape
        assert batch.tokens.shape[0] <= batch_size and 1 <= batch.tokens.shape[1] <= length
        assert [token + 1 for token in real(batch, "tokens")] == real(batch, "targets")
        if batch.mask is not None:
            assert batch.mask.dtype == torch.bool and not batch.mask.all()
            assert (batch.mask[:, 1:] <= batch.mask[:, :-1]).all(), "a row's real positions come first"
            assert not batch.tokens[~batch.mask].any() and not batch.targets[~batch.mask].any()


@given(**sizes)
def test_training_streams_predict_each_token_once_except_a_small_remainder(num_tokens, batch_size, length):
    if (num_tokens - 1) // batch_size < length:
        return
    plan = stream_plan(num_tokens, batch_size, length)
    plan_batches = batches(plan, num_tokens)
    check_batches(plan_batches, batch_size, length)
    counts = targets(plan_batches)
    assert set(counts.values()) == {1} and 0 not in counts
    assert plan.num_targets == len(counts) >= num_tokens - batch_size
    assert all(batch.mask is None for batch in plan_batches)


@given(**sizes)
def test_streams_continue_where_the_previous_batch_ended(num_tokens, batch_size, length):
    plan_batches = batches(stream_evaluation_plan(num_tokens, batch_size, length), num_tokens)
    assert [batch.fresh for batch in plan_batches] == [True] + [False] * (len(plan_batches) - 1)
    for before, after in zip(plan_batches, plan_batches[1:], strict=False):
        began = after.tokens[:, 0] if after.mask is None else after.tokens[after.mask[:, 0], 0]
        ended = before.targets[:, -1] if after.mask is None else before.targets[after.mask[:, 0], -1]
        assert torch.equal(began, ended)


@given(**sizes)
def test_evaluation_scores_every_token_but_the_first_exactly_once(num_tokens, batch_size, length):
    for plan in (
        stream_evaluation_plan(num_tokens, batch_size, length),
        window_evaluation_plan(num_tokens, length, batch_size),
    ):
        plan_batches = batches(plan, num_tokens)
        check_batches(plan_batches, batch_size, length)
        assert targets(plan_batches) == Counter(range(1, num_tokens))
        assert plan.num_targets == num_tokens - 1


@given(**sizes, seed=st.integers(0, 5), epoch=st.integers(0, 5))
def test_training_windows_predict_each_token_at_most_once(num_tokens, batch_size, length, seed, epoch):
    if num_tokens - 1 < length:
        return
    plan = window_plan(num_tokens, length, batch_size, seed, epoch)
    plan_batches = batches(plan, num_tokens)
    check_batches(plan_batches, batch_size, length)
    counts = targets(plan_batches)
    assert set(counts.values()) == {1} and 0 not in counts
    assert plan.num_targets == len(counts)
    assert all(batch.fresh and batch.mask is None and batch.tokens.shape[1] == length for batch in plan_batches)
    assert len({len(batch.tokens) for batch in plan_batches}) == 1
    assert plan.num_batches == window_plan(num_tokens, length, batch_size, seed, epoch + 1).num_batches
    if batch_size == 1:
        assert len(counts) > num_tokens - 1 - 2 * length


def test_windows_are_a_pure_function_of_seed_and_epoch():
    def starts(seed, epoch):
        return window_plan(1000, 10, 4, seed, epoch).starts.tolist()

    assert starts(1, 2) == starts(1, 2)
    assert len({tuple(starts(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    assert len({starts(0, epoch)[0] % 10 for epoch in range(50)}) > 5


@given(**sizes, seed=st.integers(0, 5), epoch=st.integers(0, 5))
def test_chunks_of_varied_length_cover_the_same_tokens_as_equal_ones(num_tokens, batch_size, length, seed, epoch):
    if (num_tokens - 1) // batch_size < length:
        return
    plan, equal = (
        varied_stream_plan(num_tokens, batch_size, length, seed, epoch),
        stream_plan(num_tokens, batch_size, length),
    )
    plan_batches = batches(plan, num_tokens)
    check_batches(plan_batches, batch_size, length + 20)
    assert targets(plan_batches) == targets(batches(equal, num_tokens))
    assert plan.num_targets == equal.num_targets
    assert [batch.fresh for batch in plan_batches] == [True] + [False] * (len(plan_batches) - 1)
    for before, after in zip(plan_batches, plan_batches[1:], strict=False):
        assert torch.equal(after.tokens[:, 0], before.targets[:, -1]), "a chunk continues where the previous one ended"
    for batch in plan_batches:
        assert batch.mask is None and batch.rate == batch.tokens.shape[1] / length
    assert all(batch.tokens.shape[1] >= min(5, length) for batch in plan_batches[:-1])


def test_lengths_vary_around_the_usual_one_or_in_one_of_twenty_around_half():
    lengths = np.concatenate([np.diff(varied_stream_plan(929_589, 20, 70, 1, epoch).edges)[:-1] for epoch in range(10)])
    usual = lengths[lengths > 52]
    half = lengths[lengths <= 52]
    assert 0.04 < len(half) / len(lengths) < 0.06
    assert abs(usual.mean() - 69.5) < 0.3 and abs(usual.std() - 5) < 0.3
    assert abs(half.mean() - 34.5) < 1 and lengths.min() >= 5 and lengths.max() <= 90


def test_varied_lengths_are_a_pure_function_of_seed_and_epoch():
    def edges(seed, epoch):
        return tuple(varied_stream_plan(5000, 2, 30, seed, epoch).edges.tolist())

    assert edges(1, 2) == edges(1, 2)
    assert len({edges(seed, epoch) for seed in range(3) for epoch in range(3)}) == 9


def test_all_other_plans_leave_the_learning_rate_unchanged():
    plans = (
        stream_plan(50, 3, 4),
        stream_evaluation_plan(50, 3, 4),
        window_plan(50, 4, 3, 0, 0),
        window_evaluation_plan(50, 4, 3),
    )
    assert {batch.rate for plan in plans for batch in batches(plan, 50)} == {1.0}


def test_a_batch_made_directly_equals_the_one_made_in_order():
    tokens = np.arange(500)
    for make in (
        lambda: stream_plan(500, 4, 7),
        lambda: window_plan(500, 7, 4, seed=3, epoch=1),
        lambda: varied_stream_plan(500, 4, 7, seed=3, epoch=1),
    ):
        met = batches(make(), 500)[5]
        resumed = make().batch(tokens, 5)
        assert (
            torch.equal(met.tokens, resumed.tokens)
            and torch.equal(met.targets, resumed.targets)
            and met.fresh == resumed.fresh
        )


def test_two_streams_by_hand():
    first, second = batches(stream_plan(10, 2, 3), 10)
    assert first.tokens.tolist() == [[0, 1, 2], [4, 5, 6]] and first.targets.tolist() == [[1, 2, 3], [5, 6, 7]]
    assert second.tokens.tolist() == [[3], [7]] and second.targets.tolist() == [[4], [8]]


def test_two_uneven_streams_by_hand():
    first, second = batches(stream_evaluation_plan(10, 2, 4), 10)
    assert first.tokens.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]] and first.mask is None
    assert second.targets.tolist() == [[5], [0]] and second.mask.tolist() == [[True], [False]]


def test_a_short_last_window_by_hand():
    (only,) = batches(window_evaluation_plan(6, 3, 2), 6)
    assert only.tokens.tolist() == [[0, 1, 2], [3, 4, 0]]
    assert only.targets.tolist() == [[1, 2, 3], [4, 5, 0]]
    assert only.mask.tolist() == [[True, True, True], [True, True, False]]


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(UserError) as caught:
        window_plan(37, 64, 8, seed=0, epoch=0)
    assert (
        str(caught.value)
        == "the text has 37 tokens, fewer than one window of 64 and the token after it; give more text or set"
        " training.length=16"
    )


def test_a_text_too_short_for_its_streams_is_refused():
    with pytest.raises(UserError) as caught:
        stream_plan(100, 16, 35)
    assert (
        str(caught.value)
        == "the text has 100 tokens, 6 for each of 16 streams, fewer than one chunk of 35; give more text or set"
        " training.batch_size=2"
    )
    for plan in (stream_plan, lambda *sizes: varied_stream_plan(*sizes, 0, 0)):
        with pytest.raises(UserError, match="or set training.batch_size=1 training.length=16"):
            plan(37, 16, 64)


@given(num_tokens=st.integers(2, 100), batch_size=st.integers(1, 20), length=st.integers(1, 100))
def test_the_suggested_remedies_work(num_tokens, batch_size, length):
    for plan in (lambda b, n: stream_plan(num_tokens, b, n), lambda b, n: window_plan(num_tokens, n, b, 0, 0)):
        try:
            plan(batch_size, length)
        except UserError as error:
            settings = dict(word.removeprefix("training.").split("=") for word in str(error).split() if "=" in word)
            plan(int(settings.get("batch_size", batch_size)), int(settings.get("length", length)))


@pytest.mark.parametrize("plan", [stream_evaluation_plan, window_evaluation_plan])
def test_a_text_of_one_token_is_rejected(plan):
    message = "a text needs 2 tokens, one to read and one to predict, but this one has 1; give more text"
    with pytest.raises(UserError, match=message):
        plan(1, 4, 4)


def test_sizes_below_one_are_refused():
    with pytest.raises(UserError, match=r"training.batch_size \(0\) must be at least 1"):
        stream_plan(10, 0, 3)
    with pytest.raises(UserError, match=r"training.length \(-1\) must be at least 1"):
        window_plan(10, -1, 3, 0, 0)


def test_a_batch_beyond_the_epoch_is_refused():
    with pytest.raises(IndexError, match="there is no batch 2; the epoch has 2"):
        stream_plan(10, 2, 3).batch(np.arange(10), 2)
    with pytest.raises(IndexError, match="there is no batch -1"):
        varied_stream_plan(10, 2, 3, 0, 0).batch(np.arange(10), -1)


drawn_lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=120).map(np.array)


@given(drawn_lengths, st.integers(1, 400), st.integers(0, 3))
def test_buckets_hold_every_example_once_within_the_budget(lengths: np.ndarray, budget: int, epoch: int) -> None:
    plan = bucket_plan(lengths, budget, 1, epoch)
    batches = [plan.rows(number) for number in range(plan.num_batches)]
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * lengths[rows].max(0).sum() <= budget


@given(drawn_lengths, st.integers(20, 400))
def test_no_two_neighbouring_buckets_fit_into_one(lengths: np.ndarray, budget: int) -> None:
    """Filled greedily in order of length: the first example of the next batch no longer fits."""
    ordered = lengths[np.argsort(lengths.sum(1), kind="stable")]
    cuts = cut_by_budget(ordered, budget)
    for current, next_cut in pairwise(cuts):
        longer = ordered[current.start : next_cut.start + 1]
        assert len(longer) * longer.max(0).sum() > budget


def test_buckets_depend_only_on_seed_and_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, 200)
    first, same, later = (bucket_plan(lengths, 90, 1, epoch).batches for epoch in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert any(len(a) != len(b) or not np.array_equal(a, b) for a, b in zip(first, later, strict=False))


def test_bucketing_leaves_little_padding() -> None:
    lengths = np.random.default_rng(0).geometric(1 / 12, 5000)
    plan = bucket_plan(lengths, 1000, 1, 0)
    padded = sum(len(rows) * lengths[rows].max() for rows in plan.batches)
    assert lengths.sum() / padded > 0.95


def test_a_zero_budget_is_rejected() -> None:
    with pytest.raises(UserError, match=r"training.batch_tokens \(0\) must be at least 1"):
        bucket_plan(np.array([3]), 0, 1, 0)


@given(part=st.integers(0, 4), parts=st.integers(1, 5), seed=st.integers(0, 3), **sizes)
def test_a_part_of_a_batch_made_alone_equals_that_part_of_the_whole(part, parts, seed, num_tokens, batch_size, length):
    tokens = np.arange(num_tokens, dtype=np.uint16)
    plans = [
        stream_evaluation_plan(num_tokens, batch_size, length),
        window_evaluation_plan(num_tokens, length, batch_size),
    ]
    if num_tokens > batch_size * length:
        plans += [
            stream_plan(num_tokens, batch_size, length),
            varied_stream_plan(num_tokens, batch_size, length, seed, 0),
        ]
        plans += [window_plan(num_tokens, length, batch_size, seed, 0)]
    for plan in plans:
        number = seed % plan.num_batches
        part_batch, whole_batch = (
            plan.batch(tokens, number, part=part % parts, parts=parts),
            cut_rows(plan.batch(tokens, number), parts)[part % parts],
        )
        assert (part_batch.fresh, part_batch.rate, part_batch.mask is None) == (
            whole_batch.fresh,
            whole_batch.rate,
            whole_batch.mask is None,
        )
        for one, other in zip(part_batch, whole_batch, strict=True):
            assert not isinstance(other, torch.Tensor) or torch.equal(one, other)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12), st.integers(1, 5), st.data())
def test_a_part_includes_the_examples_that_determine_its_padding(lengths, parts, data):
    sides, part = np.array(lengths), data.draw(st.integers(0, parts - 1))
    plan = ExamplePlan([np.arange(len(sides))[::-1]])
    rows, size = plan.own_rows(0, part, parts, sides)
    assert rows[:size].tolist() == plan.rows(0)[slice_of_part(len(sides), part, parts)].tolist() and len(
        set(rows.tolist())
    ) == len(rows)
    assert (sides[rows].max(0) == sides.max(0)).all() and (sides[rows].min(0) == sides.min(0)).all()
