"""The blocks of a body: which of its layers count as one to everybody who says "the last four"."""

from bisect import bisect_left
from typing import Any

from torch import nn

from clew.layers.attention import CrossAttention
from clew.layers.feedforward import FeedForward
from clew.layers.sequence import Stack


def block_ends(body: Any, num_levels: int) -> list[int]:
    """The numbers of the levels that end a block, the embedding's first. A layer with a feed-forward network above it is one block, and so
    is one that looks at a memory between the two, as attention's authors count (Vaswani et al. 2017); any other layer is a block of its
    own."""
    layers = [getattr(layer, "layer", None) for layer in getattr(body.layers, "layers", ())]
    pairs = enumerate(zip(layers, layers[1:], strict=False), start=1)
    inside = {level for level, (lower, upper) in pairs if goes_on(upper) and not isinstance(lower, FeedForward)}
    return [number for number in range(num_levels) if number not in inside]


def goes_on(layer: Any) -> bool:
    """Whether a layer is of the block that the one below it begins."""
    return isinstance(layer, (FeedForward, CrossAttention))


def parameter_blocks(body: Any) -> list[dict[str, nn.Parameter]]:
    """A body's parameters by name, block by block: the embedding's, those of the lowest block, and so on. Readers of both directions are
    one block where they stand side by side; what is in no layer (the last norm) goes with the topmost. An encoder-decoder has both
    embeddings at first, then the encoder's blocks, then the decoder's, the lowest with what leads to it."""
    return blocks_of_halves(body) if getattr(body, "encodes", False) else blocks_of_layers(body)


def blocks_of_halves(body: Any) -> list[dict[str, nn.Parameter]]:
    reading, writing = blocks_of_layers(body.encoder), blocks_of_layers(body.decoder)
    numbered = [*enumerate(reading), (0, writing[0]), *enumerate(writing[1:], start=len(reading))]
    level_of = {id(parameter): level for level, block in numbered for parameter in block.values()}
    found: list[dict[str, nn.Parameter]] = [{} for _ in numbered[1:]]
    for name, parameter in body.named_parameters():
        found[level_of.get(id(parameter), min(len(reading), len(found) - 1))][name] = parameter
    return found


def blocks_of_layers(body: Any) -> list[dict[str, nn.Parameter]]:
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
