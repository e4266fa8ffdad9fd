"""Import published checkpoints, and export runs to other runtimes. An exporter writes its files into an existing empty
folder."""

from collections.abc import Callable
from pathlib import Path

from clew.interop.huggingface.export import export_huggingface
from clew.interop.onnx_programs import export_onnx
from clew.interop.options import ExportOptions
from clew.interop.programs import export_torch
from clew.runs.loaded import Run

EXPORTS: dict[str, Callable[[Run, Path, ExportOptions], None]] = {
    "hf": export_huggingface,
    "onnx": export_onnx,
    "torch": export_torch,
}
