"""The GPU's kernels of cells on a CPU: the same source by the system's C++ compiler, every thread of a block a thread
of the system."""

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

import clew.kernels.cells
from clew.kernels.cells.source import Program

COMPILER = shutil.which("g++")
SOURCE = Path(clew.kernels.cells.__file__).parent / "walk.cu"
PRELUDE = Path(__file__).parent / "emulated_prelude.cuh"


class Emulated:
    def __init__(self, program: Program, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in program.headers.items():
            (folder / name).write_text(text)
        shutil.copy(PRELUDE, folder / "prelude.cuh")
        shutil.copy(SOURCE, folder / "walk.cu")
        runs = "".join(
            f'extern "C" void run_{name}(int blocks, {name.upper()}_PARAMETERS) {{ run(blocks, THREADS,'
            f" {program.shared}, "
            f"[=] {{ walk_{name}({', '.join(getattr(program, name))}); }}); }}\n"
            for name in ("forward", "backward")
        )
        (folder / "emulated.cpp").write_text('#include "walk.cu"\n' + runs)
        library = folder / "emulated.so"
        command = [
            "g++",
            "-O1",
            "-w",
            "-std=c++17",
            "-fPIC",
            "-shared",
            "-pthread",
            "-x",
            "c++",
            "emulated.cpp",
            "-o",
            str(library),
        ]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert not result.returncode, result.stderr[:3000]
        self.library = ctypes.CDLL(str(library))

    def __call__(self, name: str, blocks: int, values: Sequence[Tensor | int]) -> None:
        arguments = [
            ctypes.c_void_p(value.data_ptr()) if isinstance(value, Tensor) else ctypes.c_int(value) for value in values
        ]
        getattr(self.library, name.replace("walk", "run"))(ctypes.c_int(blocks), *arguments)
