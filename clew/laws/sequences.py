"""Laws of sequence layers and bodies: everything called as `(inputs, mask, state) -> (y, state)`.

The laws about state and future apply to causal layers; a layer that is not causal must reject a state instead.
"""

from contextlib import nullcontext

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.rewinding import mark, rewind
from clew.core.state import copy_state, leaves, map_state, reorder, select_rows
from clew.core.taps import Tap, watching
from clew.core.types import State
from clew.kernels import only_equations
from clew.laws.cases import Build, Case, Chunk, Law, Sizes

MORE = 2
"""The number of positions read after the compared ones, so that final states are compared by their effect."""

ROOM = 256
"""A capacity larger than any input here, for which windowed attention keeps a ring instead of a buffer."""


def contract(build: Build, sizes: Sizes) -> None:
    """A layer returns a tensor (batch, length, dim) of its input's type, and a state of tensors with the batch axis
    first."""
    case = Case("contract", build, sizes)
    for attribute, kind in (("causal", bool), ("dim", int)):
        if not isinstance(getattr(case.module, attribute, None), kind):
            case.fail(
                f"a layer must have an attribute {attribute} ({kind.__name__}); {type(case.module).__name__} has none"
            )
    check_state(case, "initial_state", case.start(sizes.batch))
    result = case.module(case.draw())
    if not isinstance(result, tuple) or len(result) != 2:
        case.fail(f"forward must return (y, state), not {_kind(result)}")
    check_output(case, result[0], (sizes.batch, sizes.length, case.module.dim))
    check_state(case, "forward", result[1])


def check_output(case: Case, y: object, shape: tuple[int, ...]) -> None:
    if not isinstance(y, Tensor):
        case.fail(f"y must be a tensor, not {_kind(y)}")
    if tuple(y.shape) != shape:
        case.fail(f"y must have the shape {shape}, not {tuple(y.shape)}")
    if y.dtype != torch.float64:
        case.fail(
            f"y must have the type of its input (torch.float64), not {y.dtype}; make new tensors with x.new_zeros or"
            " like=x"
        )
    if not bool(y.isfinite().all()):
        case.fail("y is not finite, although all inputs are")


def check_state(case: Case, where: str, state: State) -> None:
    """Check that a state has only tensors, with the batch axis first outside memory, and floats of the input's type."""
    try:
        state_leaves = leaves(map_state(lambda leaf: leaf, state))
        map_state(lambda leaf: _check_leaf(case, where, leaf), state)
    except TypeError as error:
        case.fail(f"{where} returned an invalid state: {error}")
    for leaf in state_leaves:
        if leaf.is_floating_point() and leaf.dtype != torch.float64:
            case.fail(
                f"{where} returned a state of type {leaf.dtype}, not the input's torch.float64; create it with"
                " like.new_zeros(...)"
            )


def purity(build: Build, sizes: Sizes) -> None:
    """A call has no side effects: the same input gives the same output for any reads in between, and arguments are
    not changed."""
    case = Case("purity", build, sizes).settle()
    x, more = case.draw(), case.draw(length=MORE)
    unchanged = x.clone()
    first = case.read(Chunk(x))
    case.same("the input after it was read", unchanged, x)
    case.read(Chunk(case.draw(batch=sizes.batch + 1, length=sizes.length + 1)))
    case.same_rows("y of the same x again", first.rows, case.read(Chunk(x)).rows)
    if not case.causal:
        return
    before = copy_state(first.state)
    once = case.read(Chunk(more), state=first.state)
    for stored, now in zip(leaves(before), leaves(first.state), strict=True):
        case.same("a state after it was passed to a call", stored, now, axes=("row",))
    case.same_rows("y of the same x and state again", once.rows, case.read(Chunk(more), state=first.state).rows)


def batch(build: Build, sizes: Sizes) -> None:
    """Rows are independent: neither the other rows nor the order of rows matter."""
    case = Case("batch", build, sizes).settle()
    inputs = [case.draw(), *([case.draw(length=MORE)] if case.causal else [])]
    together = case.read(*map(Chunk, inputs)).rows
    order = torch.randperm(sizes.batch, generator=case.generator).tolist()
    permuted = case.read(*(Chunk(x[order]) for x in inputs)).rows
    case.same_rows("y of the rows in another order", [together[row] for row in order], permuted)
    for row in range(sizes.batch):
        alone = case.read(*(Chunk(x[row : row + 1]) for x in inputs)).rows
        case.same(f"y of row {row} read alone", together[row], alone[0], axes=("position", "feature"))


def causality(build: Build, sizes: Sizes) -> None:
    """The output at a position does not depend on later positions."""
    case = Case("causality", build, sizes).settle()
    if not case.causal:
        return
    x = case.draw()
    for way, context in (("", nullcontext), (", by its equation", only_equations)):
        with context():
            y = case.module(x)[0]
            for t in range(sizes.length - 1):
                changed = torch.cat([x[:, : t + 1], case.garbage(x[:, t + 1 :])], 1)
                what = f"y up to position {t} when x after position {t} changes{way}"
                case.same(what, y[:, : t + 1], case.module(changed)[0][:, : t + 1])


def padding(build: Build, sizes: Sizes) -> None:
    """Padding changes no real output, no state and no gradient."""
    case = Case("padding", build, sizes).settle()
    lengths = [
        case.randint(1, sizes.length) if row == 0 else case.randint(0, sizes.length) for row in range(sizes.batch)
    ]
    x, more = case.inputs_with_gradient(), case.inputs_with_gradient(sizes.batch, MORE)
    after = [Chunk(more)] if case.causal else []
    weights = [case.randn(n + MORE * case.causal, case.module.dim) for n in lengths]

    alone: list[Tensor] = []
    for row, n in enumerate(lengths):
        pieces = ([Chunk(x[row : row + 1, :n])] if n else []) + [Chunk(c.inputs[row : row + 1]) for c in after]
        alone += case.read(*pieces).rows if pieces else [x.new_zeros(0, case.module.dim)]
    expected = case.gradients(alone, weights, x)
    for _ in range(2):
        steps = torch.arange(sizes.length + 1)
        mask = steps < torch.tensor(lengths)[:, None]
        wider = torch.cat([x, x[:, :1]], 1)
        padded = case.read(Chunk(case.hide(wider, mask), mask), *after)
        case.same_rows(f"y of rows with {lengths} real positions, padded", alone, padded.rows)
        case.same_gradients(
            f"rows with {lengths} real positions, padded", expected, case.gradients(padded.rows, weights, x)
        )


def chunking(build: Build, sizes: Sizes) -> None:
    """Reading in chunks with a carried state equals reading at once, in outputs, final state, and gradients through the
    state."""
    case = Case("chunking", build, sizes).settle()
    if not case.causal:
        return
    x, more = case.inputs_with_gradient(), Chunk(case.draw(length=MORE))
    weights = [case.randn(sizes.length + MORE, case.module.dim) for _ in range(sizes.batch)]
    whole = case.read(Chunk(torch.cat([x, more.inputs], 1))).rows
    expected = case.gradients(whole, weights, x)
    for how, counts in {"at once": [[sizes.length] * sizes.batch], **case.cuts(sizes.batch, sizes.length)}.items():
        rows = case.read(*case.cut(x, counts), more).rows
        case.same_rows(f"y read {how}", whole, rows)
        case.same_gradients(f"read {how}", expected, case.gradients(rows, weights, x))


def no_length(build: Build, sizes: Sizes) -> None:
    """An empty chunk gives an empty output and does not change the state."""
    case = Case("no length", build, sizes).settle()
    if not case.causal:
        return
    x, more = case.draw(), Chunk(case.draw(length=MORE))
    before = case.read(Chunk(x)).state
    nothing, after = case.module(x[:, :0], None, before)
    case.same("y of no positions", x.new_zeros(sizes.batch, 0, case.module.dim), nothing)
    case.same_rows(
        "y that follows a chunk of no positions", case.read(more, state=before).rows, case.read(more, state=after).rows
    )


def beginning(build: Build, sizes: Sizes) -> None:
    """A state of None equals the initial state."""
    case = Case("beginning", build, sizes).settle()
    if not case.causal:
        return
    x = Chunk(case.draw())
    case.same_rows("y from the initial state", case.read(x).rows, case.read(x, state=case.start(sizes.batch)).rows)


def rows(build: Build, sizes: Sizes) -> None:
    """Selecting rows of the state before reading equals selecting rows of the output."""
    case = Case("rows", build, sizes).settle()
    if not case.causal:
        return
    x, more = case.draw(), case.draw(length=MORE)
    chosen = torch.tensor([case.randint(0, sizes.batch - 1) for _ in range(sizes.batch + 1)])
    with torch.no_grad():
        for capacity in (None, sizes.length + MORE, ROOM):
            state = case.read(Chunk(x), state=case.start(sizes.batch, capacity)).state
            before = case.read(Chunk(more[chosen]), state=select_rows(copy_state(state), chosen)).rows
            after = case.read(Chunk(more), state=state).rows
            case.same_rows(
                f"y of rows {chosen.tolist()} chosen from the state", [after[row] for row in chosen.tolist()], before
            )


def reordering(build: Build, sizes: Sizes) -> None:
    """Rows that are reordered between two steps, like beams, continue as copies of these rows."""
    case = Case("reordering", build, sizes).settle()
    if not case.causal:
        return
    x, more = case.draw(), case.draw(length=MORE)
    with torch.no_grad():
        for capacity in (None, sizes.length + MORE, ROOM):
            reordered = case.read(Chunk(x), state=case.start(sizes.batch, capacity)).state
            copied = copy_state(reordered)
            for t in range(MORE):
                order = torch.tensor([case.randint(0, sizes.batch - 1) for _ in range(sizes.batch)])
                step = Chunk(more[:, t : t + 1])
                actual = case.read(step, state=reorder(reordered, order))
                expected = case.read(step, state=select_rows(copied, order))
                case.same_rows(f"y of rows {order.tolist()} in the places of others", expected.rows, actual.rows)
                reordered, copied = actual.state, expected.state


def documents(build: Build, sizes: Sizes) -> None:
    """Packed documents are read independently, however the row is cut, and further input continues the last one."""
    case = Case("documents", build, sizes).settle()
    x, more = case.inputs_with_gradient(), case.draw(length=MORE)
    packed = [_split(case, case.randint(1, sizes.length)) for _ in range(sizes.batch)]
    mask = torch.zeros(sizes.batch, sizes.length + 1, dtype=torch.long)
    alone: list[Tensor] = []
    for row, lengths in enumerate(packed):
        start, parts = 0, []
        for number, n in enumerate(lengths, start=case.randint(1, 3)):
            mask[row, start : start + n] = number
            document = [Chunk(x[row : row + 1, start : start + n])]
            if case.causal and start + n == sum(lengths):
                document.append(Chunk(more[row : row + 1]))
            parts.append(case.read(*document).rows[0])
            start += n
        alone.append(torch.cat(parts))
    weights = [torch.ones_like(row) * case.randn(*row.shape) for row in alone]
    expected = case.gradients(alone, weights, x)
    wider = torch.cat([x, x[:, :1]], 1)
    garbled = case.hide(wider, mask)
    after = [Chunk(more)] if case.causal else []
    for cut in range(sizes.length + 1) if case.causal else [0]:
        pieces = [Chunk(garbled[:, :cut], mask[:, :cut])] if cut else []
        reading = case.read(*pieces, Chunk(garbled[:, cut:], mask[:, cut:]), *after)
        what = f"rows of documents of {packed} positions" + (f", cut at {cut}" if cut else "")
        case.same_rows(f"y of {what}", alone, reading.rows)
        case.same_gradients(what, expected, case.gradients(reading.rows, weights, x))
    if case.causal:
        with torch.no_grad():
            for capacity in (sizes.length + MORE, ROOM):
                reading = case.read(Chunk(garbled, mask), *after, state=case.start(sizes.batch, capacity))
                case.same_rows(
                    f"y of rows of documents of {packed} positions with capacity {capacity}", alone, reading.rows
                )


def caching(build: Build, sizes: Sizes) -> None:
    """Continuing from a state, grown or in a buffer of fixed capacity, equals reading everything again."""
    case = Case("caching", build, sizes).settle()
    if not case.causal:
        return
    x = case.draw()
    with torch.no_grad():
        whole = case.read(Chunk(x)).rows
        for capacity in (None, sizes.length, ROOM):
            for how, counts in case.cuts(sizes.batch, sizes.length).items():
                reading = case.read(*case.cut(x, counts), state=case.start(sizes.batch, capacity))
                case.same_rows(f"y read {how} with capacity {capacity}", whole, reading.rows)


def rewinding(build: Build, sizes: Sizes) -> None:
    """Rewinding a part of a chunk leaves the state as if that part had never been read."""
    case = Case("rewinding", build, sizes).settle()
    if not case.causal:
        return
    first, chunk, more = case.draw(length=MORE), case.draw(), Chunk(case.draw(length=MORE))
    begun = [case.randint(0, MORE) for _ in range(sizes.batch)]
    ragged = [case.randint(0, sizes.length) for _ in range(sizes.batch)]
    with torch.no_grad():
        for read in ([sizes.length] * sizes.batch, ragged):
            num_kept = [case.randint(0, n) for n in read]
            expected = case.read(*case.cut(first, [begun]), *case.cut(chunk, [num_kept]), more).rows
            [rewound_chunk] = case.cut(chunk, [read])
            for capacity in (None, sizes.length + 2 * MORE, ROOM):
                state = case.read(*case.cut(first, [begun]), state=case.start(sizes.batch, capacity)).state
                place = mark(state)
                _, state = case.module(rewound_chunk.inputs, rewound_chunk.mask, state)
                state = rewind(
                    case.module, place, state, rewound_chunk.inputs, rewound_chunk.mask, torch.tensor(num_kept)
                )
                follows = case.read(more, state=state).rows
                what = f"y after {num_kept} of {read} positions were kept, with capacity {capacity}"
                case.same_rows(what, [row[-MORE:] for row in expected], follows)


def watching_changes_nothing(build: Build, sizes: Sizes) -> None:
    """Watching taps does not change a layer's outputs."""
    case = Case("watching", build, sizes).settle()
    chunks = [Chunk(case.draw()), *([Chunk(case.draw(length=MORE))] if case.causal else [])]
    plain = case.read(*chunks)
    with watching({tap: lambda seen: None for tap in case.module.modules() if isinstance(tap, Tap)}):
        watched = case.read(*chunks)
    case.same_rows("y while every tap is watched", plain.rows, watched.rows)


def kernels(build: Build, sizes: Sizes) -> None:
    """A layer's kernel equals its equation in outputs, state and gradients."""
    case = Case("kernels", build, sizes).settle()
    x, more = case.inputs_with_gradient(), case.draw(length=MORE)
    lengths = [case.randint(1, sizes.length) for _ in range(sizes.batch)]
    for counts in ([sizes.length] * sizes.batch, lengths):
        chunks = [*case.cut(x, [counts]), *([Chunk(more)] if case.causal else [])]
        fast = case.read(*chunks)
        with only_equations():
            written = case.read(*chunks)
        weights = [torch.ones_like(row) * case.randn(*row.shape) for row in written.rows]
        case.same_rows("y of the kernel, against the equation", written.rows, fast.rows)
        gradients = [case.gradients(reading.rows, weights, x) for reading in (written, fast)]
        case.same_gradients("the kernel, against the equation", *gradients)


def saving(build: Build, sizes: Sizes) -> None:
    """A layer's state_dict is complete: another instance that loads it gives the same outputs."""
    case = Case("saving", build, sizes).settle()
    chunk = Chunk(case.draw())
    written = save({name: value.detach().clone().contiguous() for name, value in case.module.state_dict().items()})
    other: nn.Module = case.fresh(sizes.seed + 1)
    other.train(case.module.training)
    other.load_state_dict(load(written))
    case.same_rows("y of a copy with the saved weights", case.read(chunk).rows, case.read(chunk, module=other).rows)


def refusal(build: Build, sizes: Sizes) -> None:
    """A layer that is not causal rejects a state with a UserError instead of ignoring it."""
    case = Case("refusal", build, sizes).settle()
    if case.causal:
        return
    try:
        case.module(case.draw(), None, (case.randn(sizes.batch, 1),))
    except UserError:
        return
    case.fail("it is not causal, but silently accepted a state; call self.refuse_state(state)")


def levels(build: Build, sizes: Sizes) -> None:
    """A body's last level is its output, and each position of its first level depends only on itself."""
    case = Case("levels", build, sizes).settle()
    x = case.draw()
    levels_of_x = case.module.levels(x)
    case.same("the last level", case.module(x)[0], levels_of_x[-1])
    if sizes.length > 1:
        changed = torch.cat([x[:, :1], case.garbage(x[:, 1:])], 1)
        case.same(
            "the first level at position 0 when other positions change",
            levels_of_x[0][:, :1],
            case.module.levels(changed)[0][:, :1],
        )


def _split(case: Case, length: int) -> list[int]:
    """Return random lengths of documents that fill a row: every position except the first may begin a document."""
    lengths = [1]
    for _ in range(length - 1):
        if case.randint(0, 1):
            lengths.append(1)
        else:
            lengths[-1] += 1
    return lengths


def _check_leaf(case: Case, where: str, leaf: Tensor) -> Tensor:
    if leaf.dim() == 0 or len(leaf) != case.sizes.batch:
        case.fail(
            f"{where} returned a state with a tensor of shape {tuple(leaf.shape)}; its first axis must be the batch"
            f" ({case.sizes.batch})"
        )
    return leaf


def _kind(value: object) -> str:
    return (
        f"a {type(value).__name__} of {len(value)}" if isinstance(value, (tuple, list)) else f"a {type(value).__name__}"
    )


SEQUENCE_LAWS: dict[str, Law] = {
    "contract": contract,
    "purity": purity,
    "batch": batch,
    "causality": causality,
    "padding": padding,
    "chunking": chunking,
    "no length": no_length,
    "beginning": beginning,
    "rows": rows,
    "reordering": reordering,
    "documents": documents,
    "caching": caching,
    "rewinding": rewinding,
    "watching": watching_changes_nothing,
    "kernels": kernels,
    "saving": saving,
    "refusal": refusal,
}

BODY_LAWS: dict[str, Law] = {**SEQUENCE_LAWS, "levels": levels}
