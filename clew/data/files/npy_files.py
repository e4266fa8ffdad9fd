"""Rows of numbers in NumPy's .npy files, written one batch at a time and read in blocks, so that they need not fit into
memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError, command

BLOCK = 2**15
"""Number of rows read at a time."""


class RowWriter:
    """Writes float32 rows (rows, width) whose number is known only at the end. The file is written under another name,
    gets its header again with the number of rows, and is renamed.

    NumPy leaves room in a header for a first axis that grows.
    """

    def __init__(self, path: Path, width: int):
        self.path = path
        self.aside = path.with_name(path.name + ".partial")
        self.width = width
        self.num_rows = 0

    def __enter__(self) -> "RowWriter":
        self.file = self.aside.open("wb")
        self.write_header()
        self.begin = self.file.tell()
        return self

    def write_header(self) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.num_rows, self.width)}
        np.lib.format.write_array_header_1_0(self.file, header)

    def write(self, rows: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(rows, dtype="<f4").tobytes())
        self.num_rows += len(rows)

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self.file.seek(0)
            self.write_header()
            assert self.file.tell() == self.begin, "the header keeps its size"
        self.file.close()
        if kind is None:
            self.aside.replace(self.path)
        else:
            self.aside.unlink(missing_ok=True)


def open_rows(path: Path) -> np.ndarray:
    """Map the array of a .npy file (rows, width) into memory, without reading or unpickling it."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise UserError(
            f"no such file: {path}; write it with `{command('clew', 'embed', 'RUN', '--file', 'FILE', '--out', path)}`"
        ) from None
    except (ValueError, OSError, EOFError):
        raise UserError(
            f"{path}: not a complete .npy file of numbers; make one with `clew embed RUN --file FILE --out X.npy`"
        ) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise UserError(f"{path}: the file has several arrays; give a .npy file, which has one")
    if array.ndim != 2 or array.dtype.kind != "f":
        raise UserError(f"{path}: expected one vector per row, found an array of {array.dtype} {array.shape}")
    return array


def row_blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), BLOCK):
        yield np.asarray(rows[start : start + BLOCK], dtype=np.float32)
