"""Check that a model fits into memory before it is built: an error message is better than a machine that swaps or a
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

SMALL = 2**28
"""Bytes of weights below which no check is needed."""

IMPOSSIBLE = 2**60
"""More bytes than any machine has; sizes stay well within 64 bits."""

ALLOCATING = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)


class TooLarge(Exception):
    """New tensors need more bytes than allowed. `requested` counts up to the first tensor over the limit, not those
    after it."""

    def __init__(self, requested: int):
        super().__init__(f"{requested} bytes")
        self.requested = requested


class Allowance(TorchFunctionMode):
    """Within this context a new tensor that brings the total above `limit` bytes raises TooLarge and is not
    allocated."""

    def __init__(self, limit: int):
        super().__init__()
        self.limit = limit
        self.requested = 0

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function in ALLOCATING:
            size = (options or {}).get("size", arguments)
            size = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
            self.requested += 4 * math.prod(size)
            if self.requested > self.limit:
                raise TooLarge(self.requested)
        return function(*arguments, **(options or {}))


def build_within_memory(
    build: Callable[[], nn.Module],
    config: Config,
    vocabulary: int,
    device: torch.device | None,
    stored: int | None = None,
) -> nn.Module:
    """Call `build` and return its model. Refuse a model that does not fit into this machine's memory, one whose
    training does not fit on `device` (if given), and one with many more weights than the weights file (`stored`, if
    given).

    Only a model that is not small is first built on torch's meta device to measure it, which takes a second.
    """
    try:
        with Allowance(SMALL):
            return build()
    except TooLarge:
        weights = weight_bytes(build)
        check_stored(weights, stored, config, vocabulary)
        check_memory(weights, config, vocabulary, device)
    return build()


def check_stored(weights: int, stored: int | None, config: Config, vocabulary: int) -> None:
    """Refuse a model with more than about twice the stored weights. Some of its weights may not be stored, or be stored
    once for several uses, but not most of them."""
    if stored is not None and weights > 2 * (4 * stored + SMALL):
        raise UserError(
            f"the config describes a model whose weights need {gigabytes(weights)}, but the stored weights have"
            f" {gigabytes(4 * stored)}; copy them again, or correct {largest_number(config, vocabulary)}"
        )


def weight_bytes(build: Callable[[], nn.Module]) -> int:
    """Return the size of all weights, or a lower bound; 0 if the body cannot be built on the meta device because its
    constructor reads values."""
    try:
        with torch.device("meta"), Allowance(IMPOSSIBLE):
            return sum(parameter.nbytes for parameter in build().parameters())
    except TooLarge as error:
        return error.requested
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
            else "training the model, with its weights, gradients and optimiser state, needs"
        )
        where = "this machine" if place == host else "the GPU"
        raise UserError(
            f"{what} {gigabytes(needed)}, but {where} has {gigabytes(memory)} of memory; lower"
            f" {largest_number(config, vocabulary)}"
        )


def training_bytes(weights: int, config: Config) -> int:
    """Return the bytes of weights, gradients and Adam's moments, or of this process's shard of them; only the weights
    if the body is frozen."""
    transfer = config.transfer
    is_frozen = transfer.adapter is not None or transfer.freeze == "body"
    copies = 1 if is_frozen else 2 if part_name(config.training.optimiser) == "sgd" else 4
    processes = int(os.environ.get("WORLD_SIZE", "1")) if config.training.parallel == "fsdp" else 1
    return copies * weights // processes


def machine_memory(device: torch.device) -> int | None:
    """Return the memory of a GPU, of the machine or of its container in bytes; None if it is unknown."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return host_memory(LIMIT)


def largest_number(config: Config, vocabulary: int) -> str:
    """Return the setting to lower first: the largest number in the section `model`, or the vocabulary size."""
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
