"""The blocks of a body: which of its layers count as one to everybody who says "the last four"."""

from bisect import bisect_left
from typing import Any

from torch import nn

from clew.layers.feedforward import FeedForward
from clew.layers.sequence import Stack


def block_ends(body: Any, num_levels: int) -> list[int]:
    """The numbers of the levels that end a block, the embedding's first. A layer with a feed-forward network above it is one block, as
    attention's authors count (Vaswani et al. 2017); any other layer is a block of its own."""
    networks = [isinstance(getattr(layer, "layer", None), FeedForward) for layer in getattr(body.layers, "layers", ())]
    inside = {number for number in range(1, len(networks)) if networks[number] and not networks[number - 1]}
    return [number for number in range(num_levels) if number not in inside]


def parameter_blocks(body: Any) -> list[dict[str, nn.Parameter]]:
    """A body's parameters by name, block by block: the embedding's, those of the lowest block, and so on. Readers of both directions are
    one block where they stand side by side; what is in no layer (the last norm) goes with the topmost."""
    stacks = {name: part for name, part in body.layers.named_modules(prefix="layers") if isinstance(part, Stack)}
    outer = [name for name in stacks if not any(name.startswith(f"{other}.") for other in stacks)]
    num_layers = max((len(stacks[name].layers) for name in outer), default=1)
    ends = block_ends(body, num_layers + 1)
    level_of = {f"{name}.layers.{number}.": number + 1 for name in outer for number in range(len(stacks[name].layers))}
    found: list[dict[str, nn.Parameter]] = [{} for _ in ends]
    for name, parameter in body.named_parameters():
        if name.startswith("embedding."):
            found[0][name] = parameter
            continue
        level = next((level for prefix, level in level_of.items() if name.startswith(prefix)), num_layers)
        found[bisect_left(ends, level)][name] = parameter
    return found
