"""Steps of a walk in C, compiled when they are first needed by the C compiler of this machine, if it has one.

A step of some twenty torch operations on a few thousand numbers spends most of its time between them; in C it is one
call. The compiled code is loaded from a temporary folder and never kept, since a library in a shared cache would be
code from elsewhere.
"""

import ctypes
import logging
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.kernels.cells.comparing import log_once
from clew.kernels.cells.expressions import Graph, Node
from clew.kernels.cells.native_source import NativeSource, Result, native_source

LEAST_NUMBERS = 2**17
"""The fewest numbers (rows * length * width) in a sequence for which compiling, some 0.3 s once, is worthwhile."""
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
THREADS = "-fopenmp"
TORCH_THREADS = "libgomp.so.1"
"""torch's OpenMP library on Linux. Code that is linked with the same name shares its threads; a second OpenMP library
would have its own threads, which compete with torch's."""
LEAST_OF_THREAD = 2048
"""The fewest numbers of a step for which another thread is worthwhile."""
SECONDS = 60
"""The time limit of the compiler."""


class Column(NamedTuple):
    """The values of a node at all steps: at step t, entry (t + first) mod n of `whole` (n, ...)."""

    whole: Tensor
    first: int = 0

    def steps(self, length: int) -> Sequence[Tensor]:
        entries = self.whole.unbind(0)
        return [entries[(t + self.first) % len(entries)] for t in range(length)]

    @property
    def is_row(self) -> bool:
        """Whether there is one number per row, or one for all rows."""
        return self.whole.dim() == 1 or self.whole.shape[-1] == 1

    def expanded(self, width: int) -> "Column":
        """Repeat one number per row for all units."""
        whole = self.whole[:, None] if self.whole.dim() == 1 else self.whole
        return self._replace(whole=whole.expand(*whole.shape[:-1], width))


class Array(ctypes.Structure):
    """The struct `Array` of `native_prelude.h`."""

    _fields_ = [("data", ctypes.c_void_p), *((name, ctypes.c_longlong) for name in ("step", "row", "first", "count"))]


def may_compile(like: Tensor, length: int) -> bool:
    """Whether steps over `length` positions of states like this one (rows, width) are worth compiling here."""
    is_plain = like.device.type == "cpu" and like.dtype == torch.float32 and like.dim() == 2 and like.shape[1] > 1
    return is_plain and like.numel() * length >= LEAST_NUMBERS and compiler() is not None


class NativeStep(NamedTuple):
    source: NativeSource
    function: Any

    def bound(
        self, known: Mapping[Node, Column], results: Sequence[Column], rows: int, width: int
    ) -> Callable[[int], Any]:
        """Return a function of t that runs a step on these arrays."""
        columns = [*(readable(known[node]) for node in self.source.read), *results]
        arrays = (Array * len(columns))(*map(array_of, columns))
        threads = max(1, min(torch.get_num_threads(), rows, rows * width // LEAST_OF_THREAD))
        scratch = torch.empty(threads, max(1, self.source.num_scratch), width)
        function = self.function

        def step(t: int, allocated: Any = (scratch, columns), place: int = scratch.data_ptr()) -> None:
            function(arrays, t, rows, width, place, threads)

        return step


def readable(column: Column) -> Column:
    """Return the column as float32, with the units of a row side by side in memory."""
    whole = column.whole.float()
    is_strided = not column.is_row and whole.stride(-1) != 1
    return column._replace(whole=whole.contiguous() if is_strided else whole)


def array_of(column: Column) -> Array:
    whole = column.whole
    while whole.dim() < 3:  # a value without rows, or without units
        whole = whole.unsqueeze(1)
    strides = [stride if size > 1 else 0 for stride, size in zip(whole.stride(), whole.shape, strict=True)]
    assert strides[2] in (0, 1), whole.stride()
    return Array(whole.data_ptr(), strides[0], strides[1], column.first, len(whole))


def native_step(graph: Graph, known: Mapping[Node, bool], results: Sequence[Result]) -> NativeStep | None:
    """Compile the step that computes `results` from `known` (see `native_source`); None if that fails."""
    source = native_source(graph, known, results)
    function = compiled(source.text)
    return None if function is None else NativeStep(source, function)


@cache
def compiled(text: str) -> Any:
    """Return the function `step` of a C source, or None if it cannot be compiled."""
    command = compiler()
    if command is None:
        return None
    try:
        function = built(command, text)
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(getattr(error, "stderr", None) or error).strip().split("\n")[0]
        log_once(logging.DEBUG, f"steps of cells run without compiled C: {reason}")
        return None
    sizes = ctypes.c_longlong
    function.argtypes = [ctypes.c_void_p, sizes, sizes, sizes, ctypes.c_void_p, ctypes.c_int]
    function.restype = None
    log_once(logging.DEBUG, f"steps of cells run in C, compiled by {command[0]}")
    return function


def built(command: Sequence[str], text: str) -> Any:
    """Compile and load the function `step`, with threads if the compiler has them."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        source, library = Path(folder, "step.c"), Path(folder, "step.so")
        source.write_text(text, encoding="utf-8")

        def with_flags(*flags: str) -> Any:
            subprocess.run(
                [*command, *flags, "-o", str(library), str(source), "-lm"],
                check=True,
                capture_output=True,
                timeout=SECONDS,
                text=True,
                errors="replace",
            )
            return ctypes.CDLL(str(library)).step

        if shares_threads():
            with suppress(OSError, subprocess.SubprocessError):
                return with_flags(*FLAGS, THREADS)
        return with_flags(*FLAGS)


@cache
def shares_threads() -> bool:
    """Whether compiled code would share the OpenMP threads of torch."""
    loaded = Path("/proc/self/maps")
    return loaded.exists() and any(line.endswith(f"/{TORCH_THREADS}") for line in loaded.read_text().splitlines())


@cache
def compiler() -> tuple[str, ...] | None:
    """Return the command of a C compiler: the one that the variable CC names, or the system's."""
    if os.name == "nt":
        return None
    for command in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        try:
            words = tuple(shlex.split(command))
        except ValueError:  # a quotation mark without its partner
            continue
        if words and shutil.which(words[0]):
            return words
    return None
