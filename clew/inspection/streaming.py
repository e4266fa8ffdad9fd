"""Recording of values in a causal model over a long text, exactly, many positions at a time.

A layer with watched taps runs its equation step by step. So the text is cut into rows that are read in parallel; their
initial states come from reading the text once unwatched, on kernels. States that grow with the text, such as
attention's, cannot be batched with states of other lengths: then there is one row.
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
"""Steps recorded at a time."""


def stream_values(
    task: Any, tokens: Sequence[int], paths: Sequence[str], *, rows: int = ROWS
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """Yield positions (some,) of the text and the values (some, units) at each path, by chunks; every position comes
    once."""
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
    """Whether the size of the state stays constant over tokens."""
    body = task.body
    with evaluating([task]):
        before = body.initial_state(1)
        _, after = body(body.embedding.blank(1, 1), None, before)
    return [leaf.shape for leaf in leaves(before)] == [leaf.shape for leaf in leaves(after)]


def starts(body: Any, ids: Tensor) -> Any:
    """Return the initial state of each row, which is the state after all rows before it."""
    states = [body.initial_state(1)]
    for row in ids[:-1]:
        states.append(body(row[None], None, states[-1])[1])
    return map_tree(lambda *parts: torch.cat(parts), *states)
