"""Blocks of layers: what the literature counts as one layer, for example in "the last four layers"."""

from bisect import bisect_left
from typing import Any

from torch import nn

from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.feedforward import FeedForward
from clew.layers.sequence import Stack


def block_ends(body: Any, num_levels: int) -> list[int]:
    """The indices of the levels that end a block; level 0 is the embedding. As in Vaswani et al. (2017), a layer and
    the feed-forward network above it are one block, including cross-attention between the two. Any other layer is a
    separate block."""
    layers = [getattr(layer, "layer", None) for layer in getattr(body.layers, "layers", ())]
    pairs = enumerate(zip(layers, layers[1:], strict=False), start=1)
    continued = {
        level for level, (lower, upper) in pairs if continues_block(upper) and not isinstance(lower, FeedForward)
    }
    return [number for number in range(num_levels) if number not in continued]


def continues_block(layer: Any) -> bool:
    """Whether a layer belongs to the block that the layer below it began."""
    return isinstance(layer, (FeedForward, CrossAttention))


def parameter_blocks(body: Any) -> list[dict[str, nn.Parameter]]:
    """A body's parameters by name, one dict per block: the embedding, then the blocks from the bottom up. Two readers
    of opposite directions share blocks. Parameters outside any layer (the last norm) belong to the top block. An
    encoder-decoder starts with both embeddings; the blocks of the encoder follow, then those of the decoder, whose
    lowest block includes the map from encoder to decoder."""
    return blocks_of_halves(body) if getattr(body, "encodes", False) else blocks_of_layers(body)


def blocks_of_halves(body: Any) -> list[dict[str, nn.Parameter]]:
    reading, writing = blocks_of_layers(body.encoder), blocks_of_layers(body.decoder)
    numbered = [*enumerate(reading), (0, writing[0]), *enumerate(writing[1:], start=len(reading))]
    level_of = {id(parameter): level for level, block in numbered for parameter in block.values()}
    blocks: list[dict[str, nn.Parameter]] = [{} for _ in numbered[1:]]
    for name, parameter in body.named_parameters():
        blocks[level_of.get(id(parameter), min(len(reading), len(blocks) - 1))][name] = parameter
    return blocks


def blocks_of_layers(body: Any) -> list[dict[str, nn.Parameter]]:
    stacks = {name: part for name, part in body.layers.named_modules(prefix="layers") if isinstance(part, Stack)}
    outer = [name for name in stacks if not any(name.startswith(f"{outside}.") for outside in stacks)]
    num_layers = max((len(stacks[name].layers) for name in outer), default=1)
    ends = block_ends(body, num_layers + 1)
    level_of = {f"{name}.layers.{number}.": number + 1 for name in outer for number in range(len(stacks[name].layers))}
    blocks: list[dict[str, nn.Parameter]] = [{} for _ in ends]
    for name, parameter in body.named_parameters():
        if name.startswith("embedding."):
            blocks[0][name] = parameter
            continue
        level = next((level for prefix, level in level_of.items() if name.startswith(prefix)), num_layers)
        blocks[bisect_left(ends, level)][name] = parameter
    return blocks
