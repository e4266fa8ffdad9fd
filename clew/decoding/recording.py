"""Record the torch calls of a step and compare them with those of the step before. Knows no model and no algorithm.

A number v that the host reads (`item`, `tolist`) and that has grown by s since the step before is assumed to be

    v + s k   in the k-th step from here

Every other number must be the same in both steps, and so must every tensor that no recorded call has created. Growing
numbers are `Counted`: sums and differences keep track of s, and comparisons determine for how many steps the calls
stay the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clew.decoding.counted import Counted, Horizon

READS = {
    "item",
    "tolist",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__contains__",
    "equal",
    "is_nonzero",
    "allclose",
}
"""Calls that read numbers of a tensor to the host."""
SIZED_BY_DATA = {"nonzero", "masked_select", "argwhere", "unique", "unique_consecutive", "bincount"}
"""Calls whose output shape depends on the numbers in a tensor."""
CREATES = {"arange", "linspace", "zeros", "ones", "full", "empty", "eye", "rand", "randn", "randint", "randperm"}
RESHAPES = {
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "expand",
    "broadcast_to",
    "repeat",
    "tile",
    "view",
    "reshape",
    "unflatten",
}
CUTS = {"repeat_interleave", "narrow", "split", "split_with_sizes", "tensor_split", "chunk", "unfold", "topk", "pad"}
"""Calls whose arguments may be sizes. If these are tensors, torch reads them without a recorded call. The first
argument of `RESHAPES` and `CUTS` is the tensor that they work on."""
WRITES = {"copy_", "index_copy_", "scatter_", "fill_", "zero_", "masked_fill_", "__setitem__"}
"""In-place calls whose result does not depend on the tensor's old content: a step interrupted after them can be run
again."""
PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    type(None),
    type(Ellipsis),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


class Ref(NamedTuple):
    """A tensor of the step, by number: an input, a constant or a call's result."""

    number: int


class Entry(NamedTuple):
    """A recorded call: its arguments with Refs for tensors, and the Refs of the tensors it returned, or the numbers
    that the host read."""

    function: Any
    arguments: Any
    results: Any
    numbers: Any


class Recording(TorchFunctionMode):
    """Within this context, record torch calls, and compare them with those of an earlier step, `before`, if there is
    one.

    `before` is `unit` steps back. With None the distance is unknown, and the first number that has grown defines it.
    """

    def __init__(self, inputs: Sequence[Tensor], before: "Recording | None" = None, unit: int | None = 1):
        super().__init__()
        self.before, self.unit = before, unit
        self.entries: list[Entry] = []
        self.num_looks = 0  # recorded shape reads, which the step before does not have
        self.horizon = Horizon()
        self.refs: dict[int, Ref] = {}
        self.kept: list[Tensor] = []  # keeps ids unique: a freed tensor's id could be reused
        self.constants: list[Ref] = []
        self.inputs = [self.refer(tensor) for tensor in inputs]
        self.outputs: list[Ref] = []

    @property
    def reason(self) -> str | None:
        """Why no tape can be made, or None. The step itself continues either way."""
        return self.horizon.reason

    def spoil(self, reason: str) -> None:
        self.horizon.spoil(reason)

    def refer(self, tensor: Tensor) -> Ref:
        if (ref := self.refs.get(id(tensor))) is None:
            ref = self.refs[id(tensor)] = Ref(len(self.kept))
            self.kept.append(tensor)
        return ref

    def end(self, outputs: Sequence[Tensor]) -> None:
        """Finish the recording with the step's outputs."""
        if any(id(tensor) not in self.refs for tensor in outputs):
            self.spoil("a step returns a tensor that no call has made")
            return
        self.outputs = [self.refs[id(tensor)] for tensor in outputs]
        if self.before is not None and (
            self.outputs != self.before.outputs or len(self.entries) - self.num_looks != len(self.before.entries)
        ):
            self.spoil("a step makes fewer calls than the one before")

    def holds(self, tensor: Tensor, ref: Ref) -> bool:
        return ref.number < len(self.kept) and self.kept[ref.number] is tensor

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.reason is not None:
            return result
        if is_about_shape(func, result):
            return self.counted_shape(func, args, result)
        return self.note(func, args, kwargs or {}, result)

    def counted_shape(self, func: Any, args: Sequence[Any], result: Any) -> Any:
        """Return a shape query's result, with sizes that have grown since the step before as Counted."""
        ref = self.refs.get(id(args[0])) if args else None
        if self.before is None or ref is None or ref.number >= len(self.before.kept):
            return result
        earlier = self.before.kept[ref.number]
        if earlier.shape == args[0].shape or (then := func(earlier, *args[1:])) == result:
            return result
        sizes: Any = None  # len(x) cannot give a counted number
        if isinstance(result, torch.Size) and len(then) == len(result):
            sizes = tuple(self.grown(size, before) for size, before in zip(result, then, strict=True))
        elif function_name(func) == "size":
            sizes = self.grown(result, then)
        if sizes is None:
            self.spoil(f"{func} reads the shape of a tensor that grows from step to step")
            return result
        # A tape may start at another size than the recorded one, so it reads the size again.
        self.entries.append(Entry(func, self.described((list(args), {})), None, sizes))
        self.num_looks += 1
        return sizes

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        name = function_name(func)
        arguments = self.described((list(args), dict(kwargs)))
        if is_sized_by_data(name, args, kwargs):
            self.spoil(f"the output shape of {name} depends on numbers in a tensor")
        if "out" in kwargs or (changes_in_place(name) and name not in WRITES):
            self.spoil(f"{name} changes a tensor in place, so that a step could not be run again")
        results: Any = None
        if isinstance(result, Tensor):
            results = self.refer(result)
        elif isinstance(result, (tuple, list)) and result and all(isinstance(part, Tensor) for part in result):
            results = [self.refer(part) for part in result]
        elif result is not None and name not in READS:
            self.spoil(f"{name} returns something that is not a tensor")
        numbers = result if results is None else None
        entry = Entry(func, arguments, results, numbers)
        if self.before is not None:
            numbers, entry = self.compared(entry)
        self.entries.append(entry)
        return result if results is not None else numbers

    def described(self, tree: Any) -> Any:
        """Return arguments with tensors replaced by Refs."""
        if type(tree) in PLAIN:
            return tree
        if isinstance(tree, Tensor):
            if id(tree) not in self.refs:
                self.constants.append(self.refer(tree))
                if self.before is not None and not self.before.holds(tree, self.constants[-1]):
                    self.spoil(
                        "a step reads a tensor that no call has made and that differs from the one in the step before"
                    )
            return self.refs[id(tree)]
        if isinstance(tree, (tuple, list)):
            parts = [self.described(part) for part in tree]
            return parts if isinstance(tree, list) else tuple(parts)
        if isinstance(tree, dict):
            return {name: self.described(part) for name, part in tree.items()}
        if isinstance(tree, slice):
            return Slice(*(self.described(part) for part in (tree.start, tree.stop, tree.step)))
        return tree

    def compared(self, entry: Entry) -> tuple[Any, Entry]:
        """Compare an entry with that of the step before. Return what the host reads, grown numbers as Counted, and the
        entry with these."""
        assert self.before is not None
        number = len(self.entries) - self.num_looks
        if number >= len(self.before.entries):
            self.spoil("a step makes more calls than the one before")
            return entry.numbers, entry
        earlier = self.before.entries[number]
        if not (is_same_function(entry.function, earlier.function) and entry.results == earlier.results):
            self.spoil(f"from {earlier.function} on, a step makes other calls than the one before")
        elif not self.are_alike(entry.arguments, earlier.arguments):
            self.spoil(f"{entry.function} is called with another number or tensor than in the step before")
        if function_name(entry.function) in ("item", "tolist"):
            numbers = self.counted(entry.numbers, earlier.numbers)
            return numbers, entry._replace(numbers=numbers)
        if entry.numbers != earlier.numbers:  # int(x) cannot give a counted number
            self.spoil(f"the host reads {earlier.numbers!r} in a step and {entry.numbers!r} in the next")
        return entry.numbers, entry

    def are_alike(self, now: Any, then: Any) -> bool:
        if isinstance(now, Counted):
            return (
                type(then) in (int, Counted)
                and self.unit is not None
                and int.__pos__(now) - now.slope * self.unit == int.__pos__(then)
            )
        if isinstance(now, dict) and isinstance(then, dict):
            return now.keys() == then.keys() and all(self.are_alike(now[name], then[name]) for name in now)
        if isinstance(now, (Ref, *PLAIN)):
            return type(now) is type(then) and now == then
        if isinstance(now, (list, tuple)) and type(now) is type(then):
            return len(now) == len(then) and all(map(self.are_alike, now, then))
        return now is then

    def grown(self, now: int, then: int) -> int:
        """Return `now`, which was `then` in the step before, as Counted if it has grown."""
        if now == then:
            return now
        self.unit = self.unit or now - then
        if (now - then) % self.unit:
            self.spoil(f"a number grows by {now - then} where another grows by {self.unit}")
        return Counted.of(now, (now - then) // self.unit, self.horizon)

    def counted(self, now: Any, then: Any) -> Any:
        if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
            return [self.counted(*pair) for pair in zip(now, then, strict=True)]
        if type(now) is int and type(then) in (int, Counted):
            return self.grown(now, int.__pos__(then))
        if now != then:
            self.spoil(f"the host reads {then!r} in a step and {now!r} in the next")
        return now


class Slice(NamedTuple):
    start: Any
    stop: Any
    step: Any


def function_name(function: Any) -> str:
    """Return the name of a torch function; for `torch.ops.aten.add_.Tensor` it is add_."""
    return str(getattr(function, "__name__", "")).split(".")[0]


def is_about_shape(func: Any, result: Any) -> bool:
    """Whether a call reads a property of a tensor that does not depend on its numbers."""
    name = function_name(func)
    return name not in READS and isinstance(
        result, (bool, int, str, torch.Size, torch.dtype, torch.device, torch.layout)
    )


def is_sized_by_data(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the output shape of a call depends on numbers in a tensor."""
    if name in CREATES or name in RESHAPES or name in CUTS:
        return any(True for _ in tensors_in([args if name in CREATES else args[1:], kwargs]))
    if name in ("__getitem__", "__setitem__"):
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(tensor.dtype == torch.bool for tensor in tensors_in(index)) or any(
            isinstance(bound, Tensor)
            for part in index
            if isinstance(part, slice)
            for bound in (part.start, part.stop, part.step)
        )
    return name in SIZED_BY_DATA or (name == "where" and len(args) + len(kwargs) == 1)


def is_same_function(a: Any, b: Any) -> bool:
    return a is b or (a == b and function_name(a) == "__get__")


def changes_in_place(name: str) -> bool:
    if name.startswith("__"):
        return name == "__setitem__" or (
            name.startswith("__i") and name not in ("__invert__", "__iter__", "__index__", "__int__")
        )
    return name.endswith("_")


def tensors_in(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list, dict)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(part)


def refs_in(tree: Any) -> Iterator[Ref]:
    if isinstance(tree, Ref):
        yield tree
    elif isinstance(tree, dict):
        yield from refs_in(list(tree.values()))
    elif isinstance(tree, (list, tuple)):
        for part in tree:
            yield from refs_in(part)
