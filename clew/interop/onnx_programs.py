"""Export programs to ONNX, which onnxruntime and many other runtimes run without torch. Recurrences become the operator
Scan."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.wording import argument
from clew.interop.description import write_description
from clew.interop.options import ExportOptions
from clew.interop.programs import exported, quiet, refusal, without_gradients
from clew.interop.signatures import Program, check_same
from clew.interop.task_programs import programs_of
from clew.runs.loaded import Run

LARGEST = 2**31 - 2**20
"""The maximum size of one ONNX file in bytes; the weights of a larger program are stored in a second file."""


def export_onnx(run: Run, folder: Path, options: ExportOptions) -> None:
    """Write an .onnx file for each program. If onnxruntime is installed, each is compared with the run."""
    find_onnx()
    programs = programs_of(run)
    with without_gradients(run.task):
        for program in programs:
            path = folder / f"{program.name}.onnx"
            write_onnx(program, path)
            if (call := runtime(path)) is not None:
                check_same(program, call)
        write_description(run, folder, programs, "onnx", options)


def write_onnx(program: Program, path: Path) -> None:
    inputs, outputs = program.ports
    names: Any = {"input_names": [port.name for port in inputs], "output_names": [port.name for port in outputs]}
    graph = exported(program)
    try:
        with quiet():
            onnx_program: Any = torch.onnx.export(graph, dynamo=True, verbose=False, **names)
    except Exception as error:  # raised with any type if ONNX lacks an operator
        raise refusal("torch.onnx", program, error) from error
    for node in onnx_program.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces contain paths of this machine
    values = [*onnx_program.model.graph.inputs, *onnx_program.model.graph.outputs]
    for value, port in zip(values, [*inputs, *outputs], strict=True):
        for axis, side in enumerate(port.shape):
            value.shape[axis] = side  # dynamic sizes get their names
    with quiet():
        onnx_program.save(path, external_data=sum(tensor.nbytes for tensor in graph.state_dict.values()) > LARGEST)


def runtime(path: Path) -> Callable[[Sequence[Tensor]], list[Tensor]] | None:
    """Return the program as a function that onnxruntime runs; None if it is not installed."""
    try:
        onnxruntime = import_module("onnxruntime")
    except ModuleNotFoundError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        feeds = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
        return [torch.from_numpy(array) for array in session.run(None, feeds)]

    return run


def find_onnx() -> Any:
    try:
        return import_module("onnxscript"), import_module("onnx")
    except ModuleNotFoundError as error:
        raise UserError(
            f"exporting to ONNX needs {error.name}, which is not installed; `pip install 'clew[onnx]'`, or use"
            f" {argument('format', 'torch', option='to')}"
        ) from None
