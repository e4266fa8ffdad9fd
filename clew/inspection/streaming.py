"""What passes a place of a causal model while it reads a long text, exactly, and many positions at a time.

A layer whose taps are watched runs its equation, one step after another. So the text is cut into rows that are read side by side; the
state that each row starts from is found first, by reading the text once unwatched, on the kernels. A state that grows with the text, such
as attention's, cannot be laid side by side with one of another length: there is one row then.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from clew.core.modes import evaluating
from clew.core.state import leaves, map_tree
from clew.inspection.recording import record

ROWS = 64
CHUNK = 64
"""Steps that are recorded at a time."""


def stream(task: Any, tokens: Sequence[int], paths: Sequence[str], *, rows: int = ROWS) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """Positions (some,) of the text, and the values (some, units) at each path, chunk by chunk; every position comes once."""
    body = task.body
    device = body.embedding.like.device
    rows = rows if keeps_size(task) else 1
    length = -(-len(tokens) // rows)
    rows = -(-len(tokens) // length)
    ids = torch.zeros(rows * length, dtype=torch.long)
    ids[: len(tokens)] = torch.tensor(tokens)
    ids = ids.view(rows, length).to(device)
    places = torch.arange(rows * length).view(rows, length)
    with evaluating([task]):
        state = starts(body, ids)
        for start in range(0, length, CHUNK):
            at = places[:, start : start + CHUNK]
            real = at < len(tokens)
            mask = None if bool(real.all()) else real.to(device)
            with record(task, *paths) as seen:
                _, state = body(ids[:, start : start + CHUNK], mask, state)
            yield at[real], {path: seen[path][real.to(device)] for path in seen}


def keeps_size(task: Any) -> bool:
    """Whether a state is as large after a token as before it."""
    body = task.body
    with evaluating([task]):
        before = body.initial_state(1)
        _, after = body(body.embedding.blank(1, 1), None, before)
    return [leaf.shape for leaf in leaves(before)] == [leaf.shape for leaf in leaves(after)]


def starts(body: Any, ids: Tensor) -> Any:
    """The state from which each row is read, as the rows before it leave it."""
    states = [body.initial_state(1)]
    for row in ids[:-1]:
        states.append(body(row[None], None, states[-1])[1])
    return map_tree(lambda *parts: torch.cat(parts), *states)
