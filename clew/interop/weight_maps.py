"""Weight maps from another program's tensors to clew's and back: lists of (their name, our names, a transform with its
inverse).

A map is written once and used in both directions. A tensor that no entry names raises an error, so a checkpoint never
loses a layer silently.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError, few_of

Shape = tuple[int, ...]


class Transform(NamedTuple):
    """Converts one of their tensors to as many of ours as an entry names, and those back to one."""

    to_ours: Callable[[Tensor, int], Sequence[Tensor]]
    to_theirs: Callable[[Sequence[Tensor]], Tensor]


class Entry(NamedTuple):
    """`optional` marks a second copy of a tensor, which is always written, and read if it exists."""

    theirs: str
    ours: tuple[str, ...]
    transform: Transform
    optional: bool = False


def entry(theirs: str, *ours: str, transform: "Transform | None" = None, optional: bool = False) -> Entry:
    return Entry(theirs, ours, transform or SAME, optional)


def with_bias(theirs: str, *ours: str, transform: "Transform | None" = None) -> list[Entry]:
    """Return the weight and the bias of a layer. The transform applies to the weight; a bias is copied, or split over
    several layers."""
    weights, biases = (tuple(f"{name}.{part}" for name in ours) for part in ("weight", "bias"))
    return [
        Entry(f"{theirs}.weight", weights, transform or SAME),
        Entry(f"{theirs}.bias", biases, SAME if len(ours) == 1 else SPLIT),
    ]


def repeated(entries: Iterable[Entry], count: int) -> list[Entry]:
    """Return the entries for each n below `count`: `{n}` in a name becomes n, `{2n+1}` becomes 2 n + 1."""
    templates = list(entries)
    return [
        each._replace(theirs=numbered(each.theirs, n), ours=tuple(numbered(name, n) for name in each.ours))
        for n in range(count)
        for each in templates
    ]


def numbered(name: str, n: int) -> str:
    return re.sub(r"\{(\d*)n(?:\+(\d+))?\}", lambda match: str(int(match[1] or 1) * n + int(match[2] or 0)), name)


def prefixed(prefix: str, entries: Iterable[Entry]) -> list[Entry]:
    return [each._replace(theirs=prefix + each.theirs) for each in entries]


def read_tensors_into(
    entries: Iterable[Entry],
    targets: dict[str, Tensor],
    shapes_there: Mapping[str, Shape],
    read: Callable[[str], Tensor],
    where: str,
) -> None:
    """Fill `targets` with a checkpoint's tensors, one at a time. A tensor that is missing or has another shape raises a
    UserError before it is read."""
    for theirs, ours, transform, optional in entries:
        if theirs not in shapes_there and optional:
            continue
        if theirs not in shapes_there:
            raise UserError(f"{where} has no tensor {theirs}, which its config requires; copy the checkpoint again")
        shapes = [tuple(targets[name].shape) for name in ours]
        expected = tuple(transform.to_theirs([targets[name] for name in ours]).shape)
        if shapes_there[theirs] != expected:
            raise UserError(
                f"{where}: the tensor {theirs} has the shape {shown_shape(shapes_there[theirs])}, but its config"
                f" requires {shown_shape(expected)}; copy the checkpoint again"
            )
        tensor = read(theirs)
        for name, part, shape in zip(ours, transform.to_ours(tensor, len(ours)), shapes, strict=True):
            assert tuple(part.shape) == shape, name
            targets[name].copy_(part)


def their_tensors(entries: Iterable[Entry], ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert our tensors to theirs. A second copy is cloned, since safetensors refuses tensors that share memory."""
    converted = ((each, each.transform.to_theirs([ours[name] for name in each.ours]).contiguous()) for each in entries)
    return {each.theirs: tensor.clone() if each.optional else tensor for each, tensor in converted}


def check_all_used(names: Iterable[str], entries: Iterable[Entry], leftovers: Sequence[str], where: str) -> list[str]:
    """Return the unused tensors that match the patterns `leftovers`. Any other tensor that no entry names raises a
    UserError."""
    used = {each.theirs for each in entries}
    unused = sorted(set(names) - used)
    allowed = [name for name in unused if any(re.fullmatch(pattern, name) for pattern in leftovers)]
    if unknown := sorted(set(unused) - set(allowed)):
        raise UserError(
            f"{where} has {len(unknown)} tensor{'s' if len(unknown) > 1 else ''} that clew cannot use:"
            f" {few_of(unknown)}; the model computes more than its architecture says"
        )
    return allowed


def shown_shape(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "of a single number"


def rows_from(first: int) -> Transform:
    """Take the rows of a table from `first` on; earlier rows are never looked up, and are written as zeros."""

    def back(ours: Sequence[Tensor]) -> Tensor:
        return torch.cat([ours[0].new_zeros(first, ours[0].shape[1]), ours[0]])

    return Transform(lambda theirs, count: [theirs[first:]], back)


SAME = Transform(lambda theirs, count: [theirs], lambda ours: ours[0])
TURNED = Transform(lambda theirs, count: [theirs.mT], lambda ours: ours[0].mT)
"""The transpose, for programs that multiply from the other side."""
SPLIT = Transform(lambda theirs, count: theirs.chunk(count), lambda ours: torch.cat(list(ours)))
"""One tensor that holds several of our layers."""
SPLIT_TURNED = Transform(lambda theirs, count: theirs.mT.chunk(count), lambda ours: torch.cat(list(ours)).mT)
AS_ROW = Transform(lambda theirs, count: [theirs[0]], lambda ours: ours[0][None])
"""A vector that the other program stores as a matrix of one row."""
