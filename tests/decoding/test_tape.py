"""A tape gives the same results as any step, and ends where the step would make other calls."""

import gc
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.taps import watching
from clew.decoding.counted import FOREVER, Counted, Horizon
from clew.decoding.engine import forget_graphs
from clew.decoding.repeated import Eager
from clew.decoding.sampling import greedy_sequences
from clew.decoding.sliding import Sliding
from clew.decoding.tape import Tape
from clew.decoding.taped import Taped
from clew.layers.attention import Attention
from tests.decoding.test_engine import model

STEPS = 40
Frame = tuple[Tensor, Tensor]
"""A frame of a count (1,) and some numbers (1, 100)."""


def counting(
    change: Callable[[Any, Tensor], Tensor], read: Callable[[Tensor], Any] = lambda count: count.item()
) -> Any:
    """A step that changes its numbers depending on its count."""

    def advance(frame: Frame, fed: Tensor | None) -> tuple[Frame, tuple[Tensor]]:
        count, numbers = frame
        new = change(read(count), numbers if fed is None else numbers + fed[:, None])
        return (count + 1, new), (new.sum(1),)

    return advance


TABLE = [torch.full((1, 100), float(number)) for number in range(100)]
SAME = torch.ones(1, 100)


@lru_cache
def cached_numbers(number: int) -> Tensor:
    return torch.full((1, 100), float(number))


def add_in_a_loop(number: int, numbers: Tensor) -> Tensor:
    for _ in range(number):
        numbers = numbers + 1
    return numbers


def write_slice(numbers: Tensor, start: int, length: int, value: float) -> Tensor:
    numbers = numbers.clone()
    numbers.narrow(1, start, length).copy_(torch.full((1, length), value))
    return numbers


TAPED = {
    "a constant": lambda n, x: x * 0.5 + SAME,
    "a slice that grows": lambda n, x: x + x[:, : n + 1].sum(),
    "a slice that moves": lambda n, x: torch.cat([x[:, n + 1 : n + 3], x], 1)[:, :100],
    "a slice from the end": lambda n, x: x + x.narrow(1, 60 - n, n + 2).sum(),
    "sizes of what grows": lambda n, x: (
        x + torch.ones(x[:, :n].shape[1], 1).sum() + torch.ones(x[:, : n + 3].size(1)).sum()
    ),
    "a property": lambda n, x: x + (x.mT @ x).mean(),
    "several results": lambda n, x: torch.cat(x.split_with_sizes([n, 100 - n], 1)[::-1], 1),
    "a write": lambda n, x: write_slice(x, n, 2, 3.0),
    "a number in words": lambda n, x: x + torch.add(x, 1, alpha=n),
    "an iterator": lambda n, x: x + sum(part.sum() for part in iter(x)),
    "repeats by a number": lambda n, x: x + x.repeat_interleave(3, 1).sum(),
    "a comparison": lambda n, x: x + 1 if n < 200 else x,
}
LEFT = {
    "a branch": lambda n, x: x + 1 if n < 25 else x * 2,
    "a branch at one number": lambda n, x: x * 2 if n == 20 else x + 1,
    "a maximum": lambda n, x: x[:, : max(n, 23)].sum() + x,
    "a loss of truth": lambda n, x: x + 1 if n - 30 else x * 2,
}
NEVER = {
    "a quotient": lambda n, x: x + x[:, : n // 4 + 1].sum(),
    "a rest": lambda n, x: x.roll(n % 8, 1),
    "a product": lambda n, x: x + x[:, : n * n % 90 + 1].sum(),
    "a fraction": lambda n, x: x + int(n / 8),
    "a fraction added": lambda n, x: x + int(0.1 * 5 + n),
    "a number that was cast": lambda n, x: x + x[:, : int(n)].sum(),
    "a list": lambda n, x: x + TABLE[n],
    "what is remembered": lambda n, x: x + cached_numbers(n),
    "a loop": add_in_a_loop,
    "a shape of data": lambda n, x: x + len((x > x.mean()).nonzero()),
    "repeats by data": lambda n, x: x + x[0].repeat_interleave((x[0] > x.mean()).long()).sum(),
    "a mask": lambda n, x: x + x[x > x.mean()].sum(),
    "a change in place": lambda n, x: x.add_(1),
    "a fresh tensor": lambda n, x: x + torch.from_numpy(SAME.numpy().copy()),
    "elements": lambda n, x: x + sum(x.numel() for x in (x[:, :n], x)),
    "a length": lambda n, x: x + torch.ones(len(x[0, :n])).sum(),
}


def three_or_four(limit: float, numbers: Tensor) -> Tensor:
    """3, or 4 once the numbers are above a limit: a value that is equal in two steps may differ in a third."""
    return (numbers[0, 0] > limit).long() + 3


def cut_in_place(number: int, numbers: Tensor) -> Tensor:
    numbers = numbers.clone()
    torch.nn.functional.relu(numbers[:, :50], inplace=True)
    return numbers - 0.01


SIZED = {
    "where": lambda size, x: torch.where(x[0, :8] > 22)[0],
    "an operator": lambda size, x: torch.ops.aten.nonzero.default(x[0, :8] > 22),
    "a slice": lambda size, x: x[0, :size],
    "a range": lambda size, x: torch.arange(size),
    "a size": lambda size, x: torch.zeros(size, 2),
    "a size in a list": lambda size, x: torch.ones([size, 2]),
    "like another": lambda size, x: x.new_zeros(size),
    "repeats": lambda size, x: x[0, :1].repeat(size),
    "a part": lambda size, x: x[0].narrow(0, 0, size),
    "parts": lambda size, x: x[0].split([size, 100 - size])[0],
    "the largest": lambda size, x: x[0].topk(size)[0],
    "padding": lambda size, x: torch.nn.functional.pad(x[0], (0, size)),
}
NEVER |= {
    "bits": lambda n, x: x + n.bit_length(),
    "a sign": lambda n, x: x + (1 if +n < 25 else 2),
    "digits": lambda n, x: x + len(str(n)),
    "digits in a text": lambda n, x: x + len(f"{n:d}"),
    **{name: lambda n, x, sized=sized: x + len(sized(three_or_four(22, x), x)) for name, sized in SIZED.items()},
}
TAPED |= {"a part changed in place": cut_in_place}


def outcome(repeated: Any, steps: int = STEPS, fed: Tensor | None = None) -> list[Tensor]:
    outputs = [repeated.run(1, None if fed is None else fed[step : step + 1])[0] for step in range(steps)]
    return [torch.cat(outputs, 1), *repeated.frame]


def start() -> Frame:
    return torch.tensor([2]), torch.linspace(0.0, 1.0, 100)[None].clone()


def is_equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(a, b, strict=True))


@pytest.mark.parametrize("name", TAPED | LEFT | NEVER)
def test_a_tape_gives_the_same_as_the_step(name, monkeypatch):
    change, taped, following = (TAPED | LEFT | NEVER)[name], [], Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: taped.append(tape) or following(tape, ahead))
    step = counting(change)
    assert is_equal(outcome(Taped(step, start())), outcome(Eager(step, start())))
    least, most = {**dict.fromkeys(TAPED, (38, 38)), **dict.fromkeys(LEFT, (10, 37))}.get(name, (0, 0))
    assert least <= len(taped) <= most


def test_a_number_that_stops_growing_is_noticed():
    step = counting(lambda n, x: x + x[:, : n + 1].sum(), read=lambda count: count.clamp(max=20).item())
    assert is_equal(outcome(Taped(step, start())), outcome(Eager(step, start())))


def test_an_answer_that_changes_is_noticed():
    step = counting(lambda late, x: x * 2 if late else x + 1, read=lambda count: bool((count > 20).any()))
    assert is_equal(outcome(Taped(step, start())), outcome(Eager(step, start())))


def test_fed_values_are_read_at_every_step():
    step, fed = counting(lambda n, x: x + x[:, :n].sum() * 1e-3), torch.rand(STEPS, 1)
    assert is_equal(outcome(Taped(step, start()), fed=fed), outcome(Eager(step, start()), fed=fed))


def test_leaves_that_share_a_tensor_may_diverge():
    def advance(frame: Frame, fed: Tensor | None) -> Any:
        a, b = frame
        return (a + 1, b + a), (b,)

    same = torch.ones(1, 3)
    assert is_equal(outcome(Taped(advance, (same, same))), outcome(Eager(advance, (same, same))))


def test_a_state_that_grows_is_taped():
    def advance(frame: tuple[Tensor], fed: Tensor | None) -> Any:
        grown = torch.cat([frame[0], frame[0][:, -1:] * 0.5 + frame[0].shape[1]], 1)
        return (grown,), (grown.mean(1),)

    repeated = Taped(advance, (torch.ones(1, 2),))
    assert is_equal(outcome(repeated), outcome(Eager(advance, (torch.ones(1, 2),))))
    assert repeated.tape is not None
    repeated.release()
    for size in (2, 60, 1):  # smaller and larger than in the recorded steps
        repeated.restart(advance, (torch.ones(1, size),))
        assert is_equal(outcome(repeated), outcome(Eager(advance, (torch.ones(1, size),))))
        assert not repeated.misses


def test_sums_of_counted_numbers_are_counted_and_comparisons_limit_the_horizon():
    horizon = Horizon()
    n = Counted.of(10, 2, horizon)
    assert (n + 3).slope == (3 + n).slope == (n - 3).slope == 2 and (3 - n).slope == -2 and (n + n).slope == 4
    assert type(n - n) is int and (-n).slope == -2
    assert n < 100 and horizon.last == 44  # 10, 12, ..., 98
    assert not n > 15 and horizon.last == 2  # 10, 12, 14
    assert n > 1 and (horizon.first, horizon.last) == (-4, 2)  # 2, 4, ..., 14
    assert horizon.reason is None
    assert n // 3 == 3 and horizon.reason is not None


def test_a_comparison_that_never_changes_sets_no_limit():
    horizon = Horizon()
    n = Counted.of(10, 1, horizon)
    assert n >= 10 - 1 and n != 3 and n < n + 1
    assert horizon.last == FOREVER
    assert horizon.first == 0  # at 9 the first comparison, with 9, would have another result


@pytest.mark.parametrize("lengths", [(9, 9, 9), (3, 3, 3), (12, 12, 12), (9, 4, 7), (2, 1, 3)])
@pytest.mark.parametrize("family", ["gpt", "llama", "recurrent", "mixed"])
def test_a_tape_is_reused_from_any_position(family, lengths, monkeypatch):
    task, tapes_made, make, steps, following = model(family), [], Tape.__init__, [], Tape.next_step
    monkeypatch.setattr(Tape, "__init__", lambda tape, recording: tapes_made.append(tape) or make(tape, recording))
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: steps.append(ahead) or following(tape, ahead))

    def write(lengths: Any) -> Any:
        longest = max(lengths)
        prompt, mask = (
            torch.arange(3 * longest).view(3, -1) % 90,
            torch.arange(longest) < torch.tensor(lengths)[:, None],
        )
        # One capacity for all, so the frame has one shape; the longest texts fill it.
        state = task.stepper().initial_state(3, 12 + 40)
        return greedy_sequences(
            task.stepper(), prompt, mask if len(set(lengths)) > 1 else None, state, max_new=40
        ).tokens

    first = (9, 9, 9) if len(set(lengths)) == 1 else (5, 9, 7)
    write(first)
    assert len(tapes_made) == 1
    second_run = write(lengths)
    number = len(steps)
    assert torch.equal(write(lengths), second_run)
    assert len(tapes_made) == 1 and len(steps) - number >= 38, "only the last step may be left"
    with watching({next(module for module in task.modules()): lambda _: None}):
        assert torch.equal(write(lengths), second_run)


def test_a_sliding_context_is_taped_between_its_restarts(monkeypatch):
    task, steps, following = model("gpt", max_length=24), [], Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: steps.append(ahead) or following(tape, ahead))
    prompt, mask = torch.arange(14).view(2, 7), torch.arange(7) < torch.tensor([[7], [3]])

    def write() -> Tensor:
        return greedy_sequences(Sliding(task.stepper(), limit=24, keep=12), prompt, mask, max_new=120).tokens

    taped = write()
    assert len(steps) > 70
    hook = task.register_forward_hook(lambda *_: None)
    assert torch.equal(write(), taped)
    hook.remove()


def test_a_tape_reads_the_current_weights():
    task, prompt = model("gpt"), torch.zeros(1, 1, dtype=torch.long)
    before = greedy_sequences(task.stepper(), prompt, max_new=30).tokens
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    after = greedy_sequences(task.stepper(), prompt, max_new=30).tokens
    forget_graphs()
    assert not torch.equal(before, after)
    assert torch.equal(after, greedy_sequences(task.stepper(), prompt, max_new=30).tokens)


def test_a_cached_tape_keeps_no_model_alive():
    task = model("gpt")
    weight = weakref.ref(next(task.parameters()))
    greedy_sequences(task.stepper(), torch.zeros(1, 1, dtype=torch.long), max_new=30)
    del task
    gc.collect()
    assert weight() is None


def test_errors_are_raised_by_the_step_itself():
    prompt = torch.zeros(1, 190, dtype=torch.long)
    with pytest.raises(UserError, match="the sequence reaches position 201, but the model has learnt 200 positions"):
        greedy_sequences(model("gpt").stepper(), prompt, max_new=30)


def test_recording_that_starts_later_records_the_steps_from_then_on():
    task, recorded = model("gpt"), []
    stepper = task.stepper()
    tap = next(module for module in task.modules() if isinstance(module, Attention)).weights
    with torch.inference_mode():
        state = stepper.initial_state(1, 60)

        def advance(frame: Any, fed: Any) -> Any:
            log_probs, new = stepper(frame[0], None, frame[1])
            return (log_probs[:, -1:].argmax(-1), new), (log_probs[:, -1].amax(-1),)

        repeated = Taped(advance, (torch.zeros(1, 1, dtype=torch.long), state))
        repeated.run(20)
        assert repeated.tape is not None
        with watching({tap: recorded.append}):
            repeated.run(5)
    assert len(recorded) == 5
