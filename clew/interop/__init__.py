"""Published checkpoints in, runs for other runtimes out: a way out writes all that belongs to it into a folder that is there and empty."""

from collections.abc import Callable
from pathlib import Path

from clew.interop.onnx_programs import export_onnx
from clew.interop.options import ExportOptions
from clew.interop.programs import export_torch
from clew.runs.loaded import Run

EXPORTS: dict[str, Callable[[Run, Path, ExportOptions], None]] = {"torch": export_torch, "onnx": export_onnx}
