"""Compile CUDA C at run time, with the compiler that comes with torch, and launch kernels on torch's stream."""

import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
COOPERATIVE = 95  # CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH


class Uncompiled(Exception):
    """A kernel could not be compiled, loaded or launched."""


class Kernels:
    """The compiled functions of one source on one device. Launches are cooperative: they fail unless all blocks fit on
    the GPU together."""

    def __init__(self, code: bytes, names: Sequence[str], threads: int, shared: int):
        driver = library("libcuda.so.1", "nvcuda.dll")
        supported = ctypes.c_int()
        _check(
            driver,
            driver.cuDeviceGetAttribute(ctypes.byref(supported), COOPERATIVE, _device(driver)),
            "asking the driver",
        )
        if not supported.value:
            raise Uncompiled("its driver has no cooperative launches")
        self._module = ctypes.c_void_p()
        _check(driver, driver.cuModuleLoadData(ctypes.byref(self._module), code), "loading")
        self._functions: dict[str, ctypes.c_void_p] = {}
        for name in names:
            function = ctypes.c_void_p()
            _check(
                driver,
                driver.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode()),
                f"finding {name}",
            )
            _check(
                driver, driver.cuFuncSetAttribute(function, SHARED_MEMORY, shared), f"{shared} bytes of shared memory"
            )
            self._functions[name] = function
        self._driver, self._threads, self._shared = driver, threads, shared

    def __call__(self, name: str, blocks: int, values: Sequence[Tensor | int]) -> None:
        held = [
            ctypes.c_void_p(value.data_ptr()) if isinstance(value, Tensor) else ctypes.c_int(value) for value in values
        ]
        places = (ctypes.c_void_p * len(held))(*(ctypes.addressof(value) for value in held))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launch = self._driver.cuLaunchCooperativeKernel
        _check(
            self._driver,
            launch(self._functions[name], blocks, 1, 1, self._threads, 1, 1, self._shared, stream, places),
            "launching",
        )


def _device(driver: Any) -> ctypes.c_int:
    """Return the device of the current context."""
    device = ctypes.c_int()
    _check(driver, driver.cuCtxGetDevice(ctypes.byref(device)), "asking the driver")
    return device


def compiled(source: str, headers: Mapping[str, str], architecture: str) -> bytes:
    """Compile a file of this package, with its headers, to machine code for `architecture`, such as sm_90."""
    nvrtc = library(*_nvrtc_names())
    folder = files(__package__)
    text = folder.joinpath(source).read_text()
    included = {"prelude.cuh": folder.joinpath("prelude.cuh").read_text(), **headers}
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(included))(*(name.encode() for name in included))
    texts = (ctypes.c_char_p * len(included))(*(each.encode() for each in included.values()))
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), source.encode(), len(included), texts, names):
        raise Uncompiled("nvrtcCreateProgram failed")
    try:
        options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"--disable-warnings"]
        if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
            raise Uncompiled(_text(nvrtc, program, "ProgramLog").decode(errors="replace"))
        return _text(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.raw


def _nvrtc_names() -> tuple[str, ...]:
    version = (torch.version.cuda or "").partition(".")[0]
    return f"libnvrtc.so.{version}", f"nvrtc64_{version}0_0.dll"


@cache
def library(*names: str) -> Any:
    """Load the first of these libraries that this system has. A torch installed with pip has its own in a neighbouring
    package."""
    torch_folder = os.path.dirname(torch.__file__)
    site = os.path.dirname(torch_folder)
    version = (torch.version.cuda or "").partition(".")[0]
    # First without a folder: this finds the library that torch has loaded, together with its companion files.
    folders = ["", f"{site}/nvidia/cu{version}/lib/", f"{site}/nvidia/cuda_nvrtc/lib/", f"{torch_folder}/lib/"]
    for name in names:
        for folder in folders:
            try:
                return ctypes.CDLL(folder + name)
            except OSError:
                continue
    raise Uncompiled(f"none of {', '.join(names)} can be loaded")


def _check(driver: Any, result: int, what: str) -> None:
    if result:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(result, ctypes.byref(text))
        raise Uncompiled(f"{what}: {(text.value or b'error').decode()}")


@cache
def is_available() -> bool:
    """Whether a compiler and a driver are available, and torch sees a GPU."""
    try:
        library(*_nvrtc_names())
        library("libcuda.so.1", "nvcuda.dll")
    except Uncompiled:
        return False
    return torch.cuda.is_available() and torch.version.cuda is not None
