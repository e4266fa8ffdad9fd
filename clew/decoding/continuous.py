"""Continuous batching: rows join and leave a batch while it runs. Knows no model, no text and no server.

    join(request) -> row,   advance() -> what was written,   leave(row)

A row first reads its prompt, except the last token, apart from the batch and one chunk at a time, so that a long prompt
delays no other row. Then it gets a slot in the running batch. A step of the batch reads one token of every row and
chooses each row's next token by the row's own options (`choosing`). The output of a row depends only on its prompt,
options, seed and number, and equals its output in a batch of one.

Every tensor of a running batch is allocated once, with rows and positions in powers of two, and rows are written in
place. So the step is one graph or tape (`engine`) that is reused while rows come and go. A slot without a row keeps
reading; its output is ignored, and it is emptied before it is full. Rows wait when all slots are taken; after `TURN`
steps the longest-running rows go to the back of the queue, with their states.

A batch whose rows have all ended keeps its memory for the next ones until `rest` or `close`.

With a `limit`, a row that has read `limit` positions continues from its last `keep` tokens, which it reads again, as
with `Sliding`.
"""

import math
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from operator import or_
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.state import leaves, map_tree, put_rows, select_rows
from clew.core.types import State
from clew.decoding.choosing import (
    PLAIN,
    Choice,
    Choices,
    Kinds,
    check_choice,
    choice_kinds,
    choose_tokens,
    shaped,
    stack_choices,
)
from clew.decoding.ends import check_max_new
from clew.decoding.engine import LEAST_STEPS, called, repeating, standing_of
from clew.decoding.looks import looks_every
from clew.decoding.prefixes import Overwritten, Prefixes, Shape, overwritten_of, shape_of
from clew.decoding.repeated import Outputs, Repeated
from clew.decoding.sampling import row_generator
from clew.decoding.stepper import Stepper, read_at, signature_of

CHUNK = 64
"""Tokens of a prompt that are read at once. Prompts share prefixes in multiples of it."""
READS = 16
"""The most chunks that are read between two steps of the batch, over all rows."""
LEAST_READ = 16
"""The fewest rows and tokens that are read at once on a GPU, padding included."""
MOST_PADDED = 2**26
"""The most bytes of a state that is padded to more rows than are read."""
EVERY = 4
"""Every EVERY-th reading round takes the oldest rows; the others take the rows with the least to read."""
JOINS_EVERY = 8
"""The most steps that a waiting row is held back, so that several join together. Rows join immediately if they are at
least 1 / JOINS_EVERY of the running ones."""
LOOKS_EVERY, MANY = 4, 16
"""Steps between two looks at a batch of at least `MANY` rows on a CPU: a look costs as much Python time as a small
model's step."""
TURN = 32
"""Steps after which a row gives up its slot if others wait for one."""
PATIENCE = 8
"""A batch shrinks when it was too large at more than this many joining times in a row: a quarter of its rows or
positions sufficed, or no row chose in one of its ways."""
LEAST_ROOM = 64
"""The least room of a batch, in positions."""
MOST_TRIED, BYTES_TRIED = 2**13, 2**26
"""The most positions, and bytes of one row, for which `rooms_of` creates trial states."""
DRAWN = 16
"""Random numbers that a row draws at a time."""


class RowRequest(NamedTuple):
    """A request: the prompt, the most new tokens, the end tokens, and how the row chooses."""

    prompt: Sequence[int]
    max_new: int
    ends: Sequence[int] = ()
    choice: Choice = Choice()
    seed: int = 0
    number: int = 0


class Written(NamedTuple):
    """The output of a row since the last look, one entry per token, or the error that ended it.

    `log_probs` are those of the distributions that the tokens were chosen from, `plain` those of the stepper itself;
    `alternatives` are pairs of a token and its plain log-probability, the most probable first.
    """

    row: "Row"
    tokens: list[int]
    log_probs: list[float]
    plain: list[float]
    alternatives: list[list[tuple[int, float]]]
    ended: str | None = None
    """`end` if the last token is an end token, `length` if it is the last of `max_new`, `error` with an error; None
    while the row runs."""
    error: Exception | None = None

    @property
    def text(self) -> list[int]:
        """The tokens without the end token."""
        return self.tokens[:-1] if self.ended == "end" else self.tokens


class Part(NamedTuple):
    """One row of a state."""

    of: State
    index: int  # type: ignore[assignment]

    def alone(self) -> State:
        rows = torch.tensor([self.index], device=leaves(self.of)[0].device)
        return select_rows(self.of, rows)


class Row:
    """A request in progress. `tokens` holds the prompt and the output; those from `begins` + `position` on are not read
    yet."""

    def __init__(self, request: RowRequest):
        self.request = request
        self.tokens = list(request.prompt)
        self.begins = 0
        """Start of the window that the model sees."""
        self.position = 0
        """Positions of the window that have been read."""
        self.part: Part | None = None
        """The state after the tokens that it has read, while it has no slot."""
        self.slot: int | None = None
        self.turn = 0
        self.digests: list[bytes] | None = None
        self.overwritten: list[Overwritten] = []
        self.kinds = choice_kinds(request.choice)
        self.generator = None if request.choice.is_greedy else row_generator(request.seed, request.number)
        self.drawn: list[float] = []

    @property
    def num_new(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def left(self) -> int:
        """Unread tokens to read apart from the batch: all but the last."""
        return len(self.tokens) - self.begins - self.position - 1

    def draw(self, count: int) -> list[float]:
        if self.generator is None:
            return [0.0] * count
        while len(self.drawn) < count:
            self.drawn += torch.rand(DRAWN, generator=self.generator, dtype=torch.float64).tolist()
        numbers, self.drawn = self.drawn[:count], self.drawn[count:]
        return numbers

    def begin_anew(self, keep: int) -> None:
        """Start a new window when this one is full: the last `keep` tokens, and the one that is not read yet."""
        self.begins = len(self.tokens) - keep - 1
        self.position, self.part, self.slot, self.digests = 0, None, None, []


class Frame(NamedTuple):
    """The batch between two steps: the token that each row reads next, how each row chooses, and the model's state."""

    tokens: Tensor  # (rows,)
    choices: Choices
    state: State


class Advance:
    """One step of all rows."""

    def __init__(self, stepper: Stepper, kinds: Kinds):
        self.stepper = stepper
        self.kinds = kinds
        inner = signature_of(stepper)
        self.signature: Hashable = None if inner is None else ("continuous", inner, kinds)

    def __call__(self, frame: Frame, uniform: Tensor | None) -> tuple[Frame, Outputs]:
        plain, state = self.stepper(frame.tokens[:, None], None, frame.state)
        plain = plain[:, -1]
        log_probs = shaped(plain, frame.choices, self.kinds)
        tokens = choose_tokens(log_probs, frame.choices, self.kinds, uniform)
        outputs = [tokens, *(of.gather(1, tokens[:, None])[:, 0] for of in (log_probs, plain))]
        if count := min(self.kinds.alternatives, plain.shape[-1]):
            outputs += plain.topk(count, -1)
        return Frame(tokens, frame.choices, state), tuple(outputs)


class Continuous:
    """Rows of one stepper that are decoded together, at most `most_rows` in a batch. `prefixes` caches shared
    beginnings of prompts.

    `steps` counts the steps of the batch, `num_read` the tokens that were read apart from it.
    """

    def __init__(
        self,
        stepper: Stepper,
        *,
        device: torch.device | str = "cpu",
        most_rows: int = 64,
        limit: int | None = None,
        keep: int | None = None,
        prefixes: Prefixes | None = None,
    ):
        self.stepper = stepper
        self.device = torch.device(device)
        self.pads = self.device.type == "cuda"
        """Pad what is read to few shapes, so that reading can be captured."""
        self.most_rows = most_rows
        self.limit = limit
        self.keep = max(limit // 2, 1) if keep is None and limit is not None else keep
        self.prefixes = prefixes
        self.chunk = CHUNK if prefixes is None else prefixes.block
        self.waiting: list[Row] = []
        """Rows without a slot, oldest first."""
        self.slots: list[Row | None] = []
        self.positions: list[int] = []
        """Positions read in each slot, empty slots included."""
        self.room = 0
        self.kinds = Kinds()
        self.opened = ExitStack()
        self.running: Repeated | None = None
        self.signature: Hashable = None
        self.standing = standing_of(None)
        """Those of the running step, see `engine`."""
        self.ample = 0
        """How many joining times in a row the batch has been too large."""
        self.rounds = self.steps = self.num_read = self.since = 0
        self.least_room, self.has_room = rooms_of(stepper)
        inner = signature_of(stepper)
        self.reading: Hashable = None if inner is None else ("continuous reading", inner)
        """The signature of reading a chunk, see `engine`."""
        self.shapes: dict[int, Shape] = {}
        """The shapes of cached prefixes, by their room."""

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not any(self.slots)

    @property
    def num_rows(self) -> int:
        return len(self.waiting) + sum(row is not None for row in self.slots)

    def join(self, request: RowRequest) -> Row:
        """Add a row, which takes part from the next `advance` on."""
        check_max_new(request.max_new)
        check_choice(request.choice)
        if not len(request.prompt):
            raise UserError("the prompt is empty; a row needs at least one token, such as the start token")
        vocabulary = self.stepper.vocabulary
        if not 0 <= min(request.prompt) <= max(request.prompt) < vocabulary:
            raise UserError(f"the prompt has a token outside of the vocabulary, which has {vocabulary}: 0 and up")
        if self.limit is not None and len(request.prompt) > self.limit:
            raise UserError(
                f"the prompt has {len(request.prompt)} tokens, and the model takes {self.limit}; shorten it"
            )
        row = Row(request)
        self.waiting.append(row)
        return row

    def leave(self, row: Row) -> None:
        """End a row immediately, in a slot or waiting. Does nothing for a row that has ended."""
        if row.slot is not None:
            self.slots[row.slot] = None
            row.slot = None
        elif row in self.waiting:
            self.waiting.remove(row)
        row.part = None

    def close(self) -> list[Row]:
        """Drop the batch and return the rows that have not ended."""
        rows = [*(row for row in self.slots if row is not None), *self.waiting]
        for row in rows:
            self.leave(row)
        self._drop()
        return rows

    @torch.inference_mode()
    def advance(self) -> list[Written]:
        """Read parts of the waiting prompts, and write the next tokens of all rows that have a slot."""
        if self._is_time():
            self._read()
            self._hand_on()
            self._admit()
        before = self.steps
        written = self._step()
        self.since += self.steps - before
        return written

    def rest(self) -> None:
        """Release the memory of a batch without rows, except that of CUDA graphs, which `engine` keeps."""
        if not any(self.slots):
            self._drop()

    def _is_time(self) -> bool:
        """Whether rows join now: immediately if they are many compared with the running ones; else rows of several
        steps join together, which costs less."""
        rows = [row for row in self.slots if row is not None]
        room = self.most_rows - len(rows) + sum(row.turn >= TURN for row in rows)
        if self.since < JOINS_EVERY and JOINS_EVERY * min(len(self.waiting), room) < len(rows):
            return False
        self.since = 0
        return True

    # Reading

    def _read(self) -> None:
        """Read one chunk of some rows, each up to its next block boundary."""
        ready = sum(row.left == 0 for row in self.waiting)
        unread = [row for row in self.waiting if row.left]
        if not unread or ready >= self.most_rows:
            return
        self.rounds += 1
        if self.rounds % EVERY:
            unread.sort(key=lambda row: row.left)
        rows: list[Row] = []
        reading: dict[bytes, Row] = {}
        awaited: set[bytes] = set()
        longest = 0
        for row in unread:
            self._skip(row)
            if not row.left:
                continue
            following = self._following(row)
            # Another row reads the same block; its state is taken later.
            if following is not None and following in reading:
                awaited.add(following)
                continue
            longest = max(longest, min(row.left, self.chunk))
            if rows and longest * (len(rows) + 1) > READS * self.chunk:  # padding is read too
                break
            rows.append(row)
            if following is not None:
                reading[following] = row
        if rows:
            self._read_chunk(rows)
        for digest in awaited:
            self._share(reading[digest])

    def _skip(self, row: Row) -> None:
        """Take over the state of another row that has read the same prefix."""
        if self.prefixes is None:
            return
        if row.digests is None:
            row.digests = self.prefixes.digests(row.tokens[: row.left])  # nothing has been read yet
        behind = row.position // self.chunk
        if behind >= len(row.digests) or row.digests[behind] not in self.prefixes:
            return
        hit = self.prefixes.find(row.digests)
        if hit is not None and hit[0] > behind:
            row.part, row.overwritten = Part(hit[1], 0), []
            self.prefixes.hits += hit[0] * self.chunk - row.position
            row.position = hit[0] * self.chunk

    def _following(self, row: Row) -> bytes | None:
        """The digest of the block that a row reads next; None if the block is not whole."""
        behind = row.position // self.chunk
        return row.digests[behind] if row.digests and behind < len(row.digests) else None

    def _read_chunk(self, rows: list[Row]) -> None:
        counts = [min(row.left, self.chunk) for row in rows]
        num_rows, longest = len(rows), max(counts)
        room = self._room_for(max(row.position + count for row, count in zip(rows, counts, strict=True)))
        if self.pads:
            longest = min(LEAST_READ if longest <= LEAST_READ else self.chunk, self.chunk)
            padded = power_of_two(max(num_rows, min(LEAST_READ, self.most_rows)))
            if padded * self._shape_for(room).nbytes <= MOST_PADDED:
                num_rows = padded
        state = self.stepper.initial_state(num_rows, room)
        for part, places in group_by_state(rows):
            put_rows(state, self._numbers(places), part)
        starts = [row.begins + row.position for row in rows]
        read = [
            row.tokens[start : start + count] + [0] * (longest - count)
            for row, start, count in zip(rows, starts, counts, strict=True)
        ]
        read += [[0] * longest] * (num_rows - len(rows))
        lengths = counts + [min(counts)] * (num_rows - len(rows))
        mask = None if min(lengths) == longest else torch.arange(longest) < torch.tensor(lengths)[:, None]
        tokens = torch.tensor(read, device=self.device)
        arguments = tokens, None if mask is None else mask.to(self.device), state
        state = called(self._state_after, arguments, self.reading)
        self.num_read += sum(counts)
        for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
            row.part = Part(state, place)
            row.position += count
            if self.prefixes is not None and row.digests and count == self.chunk:
                row.overwritten.append(overwritten_of(state, place))
            if not row.left:
                self._share(row)

    def _state_after(self, tokens: Tensor, mask: Tensor | None, state: State) -> State:
        """Return the state after a chunk."""
        anywhere = torch.zeros(len(tokens), 1, dtype=torch.long, device=tokens.device)  # its distribution is not used
        return read_at(self.stepper, tokens, mask, state, anywhere)[1]

    def _share(self, row: Row) -> None:
        """Let other rows continue from the last whole block that a row has read."""
        count = row.position // self.chunk
        if self.prefixes is None or not row.overwritten or row.part is None:
            return
        assert row.digests is not None
        room = max(count * self.chunk, self.least_room)
        shape = self._shape_for(room if self.limit is None else min(room, self.limit))
        self.prefixes.put(row.part.of, row.part.index, shape, row.digests[:count], row.overwritten)

    def _shape_for(self, room: int) -> Shape:
        if room not in self.shapes:
            self.shapes[room] = shape_of(self.stepper.initial_state(1, room))
        return self.shapes[room]

    # Slots

    def _hand_on(self) -> None:
        """Take the slots of rows whose turn is over, if other rows wait for one."""
        ready = sum(row.left == 0 for row in self.waiting)
        free = self.most_rows - sum(row is not None for row in self.slots)
        finished_turn = sorted(
            (row for row in self.slots if row is not None and row.turn >= TURN), key=lambda row: -row.turn
        )
        for row in finished_turn[: max(ready - free, 0)]:
            self._take_out(row)
            self.waiting.append(row)

    def _take_out(self, row: Row) -> None:
        assert row.slot is not None and self.running is not None
        row.part = Part(Part(self.running.frame.state, row.slot).alone(), 0)
        self.slots[row.slot] = None
        row.slot = None

    def _admit(self) -> None:
        """Assign slots to rows whose prompts are read, and make room for them."""
        occupied = [row for row in self.slots if row is not None]
        if not occupied and self._has_changed():
            self._drop()
        joining = [row for row in self.waiting if not row.left][: self.most_rows - len(occupied)]
        rows = [*occupied, *joining]
        if not rows:
            return
        for row in joining:
            self.waiting.remove(row)
            row.turn = 0
        kinds = reduce(or_, {row.kinds for row in rows})
        self._fit(len(rows), max(row.position for row in rows) + 1, kinds)
        if not joining:
            return
        free = deque(slot for slot, row in enumerate(self.slots) if row is None)
        for row in joining:
            row.slot = free.popleft()
            self.slots[row.slot] = row
            self.positions[row.slot] = row.position
        assert self.running is not None
        frame: Frame = self.running.frame
        slots = self._numbers([row.slot for row in joining if row.slot is not None])
        frame.tokens.index_copy_(0, slots, torch.tensor([row.tokens[-1] for row in joining], device=self.device))
        put_rows(frame.choices, slots, stack_choices([row.request.choice for row in joining], self.device))
        new = [row for row in joining if row.part is None]
        if new:
            self._empty([row.slot for row in new if row.slot is not None], frame)
        for part, places in group_by_state(joining):
            put_rows(frame.state, slots[self._numbers(places)], part)
        for row in joining:
            row.part, row.overwritten = None, []

    def _fit(self, count: int, longest: int, kinds: Kinds) -> None:
        """Make room for `count` rows and `longest` positions, in powers of two, that choose in these ways; shrink the
        batch if it has long been too large, or is too large and empty."""
        rows, room, all_kinds = min(power_of_two(count), self.most_rows), self._room_for(longest), kinds | self.kinds
        is_small = (
            rows > len(self.slots)
            or (self.has_room and room > self.room)
            or all_kinds != self.kinds
            or self.running is None
        )
        is_roomy = 4 * rows <= len(self.slots) or (self.has_room and 4 * room <= self.room)
        is_large = is_roomy or kinds != self.kinds
        self.ample = self.ample + 1 if is_large else 0
        shrinks = is_large and (self.ample > PATIENCE or not any(self.slots))
        if is_small or shrinks:
            if not (shrinks and is_roomy):
                rows, room = max(rows, len(self.slots)), max(room, self.room)
            self._rebuild(rows, room, kinds if shrinks else all_kinds)

    def _rebuild(self, rows: int, room: int, kinds: Kinds) -> None:
        occupied = [row for row in self.slots if row is not None]
        choices = stack_choices(
            [row.request.choice for row in occupied] + [PLAIN] * (rows - len(occupied)), self.device
        )
        tokens = torch.tensor([row.tokens[-1] for row in occupied] + [0] * (rows - len(occupied)), device=self.device)
        frame = Frame(tokens, choices, map_tree(torch.clone, self.stepper.initial_state(rows, room)))
        if occupied:
            assert self.running is not None
            old = self._numbers([row.slot for row in occupied if row.slot is not None])
            put_rows(frame.state, self._numbers(range(len(occupied))), select_rows(self.running.frame.state, old))
        self._drop()
        self.slots = [*occupied, *[None] * (rows - len(occupied))]
        self.positions = [row.position for row in occupied] + [0] * (rows - len(occupied))
        for slot, row in enumerate(occupied):
            row.slot = slot
        self.room, self.kinds, self.ample = room, kinds, 0
        step = Advance(self.stepper, kinds)
        self.signature, self.standing = step.signature, standing_of(step.signature)
        self.running = self.opened.enter_context(
            repeating(step, frame, steps=LEAST_STEPS, fed=kinds.draws, signature=step.signature, standing=self.standing)
        )

    def _has_changed(self) -> bool:
        """Whether the model has changed since the batch was built, or may have."""
        if self.running is None:
            return False
        return self.standing.reason is not None or standing_of(self.signature) != self.standing

    def _drop(self) -> None:
        self.opened.close()
        self.running, self.slots, self.positions, self.room, self.kinds = None, [], [], 0, Kinds()

    def _empty(self, slots: Sequence[int], frame: Frame) -> None:
        put_rows(frame.state, self._numbers(slots), self.stepper.initial_state(len(slots), self.room))
        for slot in slots:
            self.positions[slot] = 0

    # Writing

    def _step(self) -> list[Written]:
        rows = [row for row in self.slots if row is not None]
        if not rows or self.running is None:
            return []
        # Half of the rows end within `left` steps, which are divided evenly between looks.
        left = sorted(row.request.max_new - row.num_new for row in rows)[len(rows) // 2]
        count = divided(left, max(looks_every(self.device), LOOKS_EVERY if len(rows) >= MANY else 1))
        if self.limit is not None:
            count = min(count, self.limit - max(row.position for row in rows))
        if self.has_room and max(row.position for row in rows) + count > self.room:
            self._fit(len(rows), max(row.position for row in rows) + count, self.kinds)
        full = self._bound()
        if full is not None and (
            emptied := [
                slot for slot, row in enumerate(self.slots) if row is None and self.positions[slot] + count > full
            ]
        ):
            self._empty(emptied, self.running.frame)
        fed = None
        if self.kinds.draws:
            columns = [[0.0] * count if row is None else row.draw(count) for row in self.slots]
            fed = torch.tensor(columns, dtype=torch.float64).T.contiguous().to(self.device)
        outputs = [output.tolist() for output in self.running.run(count, fed)]
        self.steps += count
        self.positions = [position + count for position in self.positions]
        written: list[Written] = []
        for row in rows:
            slot = row.slot
            assert slot is not None
            row.position += count
            row.turn += count
            written.append(self._tell(row, *(output[slot] for output in outputs)))
            if row.slot is not None and self.limit is not None and row.position >= self.limit:
                assert self.keep is not None
                self.slots[slot] = None
                row.begin_anew(self.keep)
                self.waiting.append(row)
        return written

    def _tell(
        self,
        row: Row,
        tokens: list[int],
        log_probs: list[float],
        plain: list[float],
        log_probs_by_rank: list[list[float]] | None = None,
        tokens_by_rank: list[list[int]] | None = None,
    ) -> Written:
        """Return the output of a row in a block of steps, up to its end."""
        request = row.request
        count, ended, error = len(tokens), None, None
        if (left := request.max_new - row.num_new) <= count:
            count, ended = left, "length"
        if (
            request.ends
            and (place := next((place for place in range(count) if tokens[place] in request.ends), None)) is not None
        ):
            count, ended = place + 1, "end"
        if not sum(log_probs[:count]) > -math.inf:
            count, ended = next(place for place, log_prob in enumerate(log_probs) if not log_prob > -math.inf), "error"
            error = UserError(
                "there is no next token of probability above 0: all its log-probabilities are -inf, or one is NaN; "
                "loosen the filters, or look for what diverged in the model"
            )
        row.tokens += tokens[:count]
        alternatives: list[list[tuple[int, float]]] = []
        if (most := request.choice.alternatives) and log_probs_by_rank is not None and tokens_by_rank is not None:
            alternatives = [
                list(zip(tokens_by_rank[place], log_probs_by_rank[place], strict=True))[:most] for place in range(count)
            ]
        if ended is not None:
            self.leave(row)
        return Written(row, tokens[:count], log_probs[:count], plain[:count], alternatives, ended, error)

    def _bound(self) -> int | None:
        """The position at which a slot has to be emptied."""
        bounds = [bound for bound in (self.room if self.has_room else None, self.limit) if bound is not None]
        return min(bounds, default=None)

    def _room_for(self, longest: int) -> int:
        room = power_of_two(max(longest, self.least_room))
        return room if self.limit is None else min(room, self.limit)

    def _numbers(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(list(numbers), dtype=torch.long, device=self.device)


def group_by_state(rows: Sequence[Row]) -> Iterator[tuple[State, list[int]]]:
    """Group rows by the state that holds them: yield the selected rows of each state, and the places of these rows."""
    states: dict[int, tuple[State, list[int]]] = {}
    for place, row in enumerate(rows):
        if row.part is not None:
            states.setdefault(id(row.part.of), (row.part.of, []))[1].append(place)
    for state, places in states.values():
        index = torch.tensor(
            [part.index for place in places if (part := rows[place].part) is not None], device=leaves(state)[0].device
        )
        yield select_rows(state, index), places


@torch.inference_mode()
def rooms_of(stepper: Stepper) -> tuple[int, bool]:
    """Return the least room, in positions, from which on the parts of a state stay the same, and whether the room
    limits its positions.

    The parts can change with the room: a window has a ring only if the ring is smaller than all positions.
    """
    room, state = LEAST_ROOM, stepper.initial_state(1, LEAST_ROOM)
    least, larger, largest = room, state, state
    while room < MOST_TRIED and sum(leaf.nbytes for leaf in leaves(largest)) < BYTES_TRIED:
        room *= 2
        larger, largest = largest, stepper.initial_state(1, room)
        if form_of(largest) != form_of(larger):
            least = room
    return least, [leaf.shape for leaf in leaves(larger)] != [leaf.shape for leaf in leaves(largest)]


def form_of(state: State) -> Hashable:
    """Return the types of a state's parts."""
    if isinstance(state, dict):
        return tuple((name, form_of(part)) for name, part in state.items())
    if isinstance(state, (tuple, list)):
        return (type(state).__qualname__, *map(form_of, state))
    return type(state).__qualname__


def divided(count: int, most: int) -> int:
    """Divide a count into as few parts of at most `most` as possible; return the size of the first, which is the
    largest."""
    return -(-count // -(-count // most))


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << max(count - 1, 0).bit_length()
