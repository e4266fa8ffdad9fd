"""Whether a model fits into memory, told before it is built: a sentence is better than a machine that swaps or a
process that is killed."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from clew.core.config import part_name
from clew.core.errors import UserError
from clew.core.memory import LIMIT, gigabytes, host_memory
from clew.runs.config import Config

LIGHT = 2**28
"""Bytes of weights that no machine needs to be asked about."""

BEYOND = 2**60
"""Bytes that no machine has; sizes stay well within 64 bits."""

SIZED = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)


class TooLarge(Exception):
    """New tensors ask for more bytes than they may; `asked` counts the first one over it, and not what would have come
    after."""

    def __init__(self, asked: int):
        super().__init__(f"{asked} bytes")
        self.asked = asked


class Allowance(TorchFunctionMode):
    """Within this context new tensors ask first: the one that goes over `most` bytes in all is never made."""

    def __init__(self, most: int):
        super().__init__()
        self.most = most
        self.asked = 0

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function in SIZED:
            size = (options or {}).get("size", arguments)
            size = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
            self.asked += 4 * math.prod(size)
            if self.asked > self.most:
                raise TooLarge(self.asked)
        return function(*arguments, **(options or {}))


def build_within_memory(
    build: Callable[[], nn.Module],
    config: Config,
    vocabulary: int,
    device: torch.device | None,
    stored: int | None = None,
) -> nn.Module:
    """What `build` builds, if this machine has room for it, and `device` for its training where one is named; and if
    there are about as many numbers `stored` as it has, where it is to be filled with these.

    Only a model that turns out not to be light is first built without its numbers, on torch's meta device, which takes
    a second.
    """
    try:
        with Allowance(LIGHT):
            return build()
    except TooLarge:
        weights = weight_bytes(build)
        check_stored(weights, stored, config, vocabulary)
        check_memory(weights, config, vocabulary, device)
    return build()


def check_stored(weights: int, stored: int | None, config: Config, vocabulary: int) -> None:
    """Some weights may be made anew, or shared where they are stored, but not most of them."""
    if stored is not None and weights > 2 * (4 * stored + LIGHT):
        raise UserError(
            f"the config describes a model whose weights need {gigabytes(weights)}, but those that are there have"
            f" {gigabytes(4 * stored)}; copy them again, or correct {largest_number(config, vocabulary)}"
        )


def weight_bytes(build: Callable[[], nn.Module]) -> int:
    """The size of all weights, or at least that much; 0 where a body wants to see its own numbers and so cannot be
    told."""
    try:
        with torch.device("meta"), Allowance(BEYOND):
            return sum(parameter.nbytes for parameter in build().parameters())
    except TooLarge as error:
        return error.asked
    except RuntimeError:
        return 0


def check_memory(weights: int, config: Config, vocabulary: int, device: torch.device | None) -> None:
    host = torch.device("cpu")
    needs = {host: weights} if device is None else {host: weights, device: training_bytes(weights, config)}
    for place, needed in needs.items():
        memory = machine_memory(place)
        if memory is None or needed <= memory:
            continue
        what = (
            "the model's weights need"
            if needed == weights
            else "to train the model, its weights, gradients and moments need"
        )
        where = "this machine" if place == host else "the GPU"
        raise UserError(
            f"{what} {gigabytes(needed)}, but {where} has {gigabytes(memory)} of memory; lower"
            f" {largest_number(config, vocabulary)}"
        )


def training_bytes(weights: int, config: Config) -> int:
    """Weights, gradients and the moments of Adam, or this process's shard of them; of a body that stays as it is the
    weights alone."""
    transfer = config.transfer
    is_frozen = transfer.adapter is not None or transfer.freeze == "body"
    copies = 1 if is_frozen else 2 if part_name(config.training.optimiser) == "sgd" else 4
    processes = int(os.environ.get("WORLD_SIZE", "1")) if config.training.parallel == "fsdp" else 1
    return copies * weights // processes


def machine_memory(device: torch.device) -> int | None:
    """The bytes of a GPU, or of the machine, or of the container that this runs in; None where they cannot be told."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return host_memory(LIMIT)


def largest_number(config: Config, vocabulary: int) -> str:
    """What to lower first: the largest number in the model's section, or the vocabulary."""
    numbers = dict(whole_numbers("model", config.model.model_dump(mode="json")))
    name = max(numbers, key=numbers.__getitem__, default="")
    return (
        f"{name} ({numbers[name]})"
        if name and numbers[name] >= vocabulary
        else f"text.size (the vocabulary is {vocabulary})"
    )


def whole_numbers(path: str, value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield path, value
    inner = (
        value.items() if isinstance(value, dict) else [("", part) for part in value] if isinstance(value, list) else []
    )
    for name, part in inner:
        yield from whole_numbers(f"{path}.{name}" if name else path, part)
