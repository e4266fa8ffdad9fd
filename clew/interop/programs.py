"""Programs of torch.export: graphs with their weights, which torch runs without clew, on batches of any size and length."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from clew.core.modes import evaluating
from clew.interop.description import write_description
from clew.interop.options import ExportOptions
from clew.interop.signatures import SIZES, Program, check_same
from clew.interop.task_programs import programs_of
from clew.runs.loaded import Run


def export_torch(run: Run, folder: Path, options: ExportOptions) -> None:
    """A .pt2 file for each program."""
    programs = programs_of(run)
    with unchanging(run.task):
        for program in programs:
            found = exported(program)
            module = found.module()
            check_same(program, lambda tensors, module=module: module(*tensors))  # type: ignore[misc]
            with warnings.catch_warnings(action="ignore"):
                torch.export.save(found, folder / f"{program.name}.pt2")
        write_description(run, folder, programs, "torch", options)


def exported(program: Program) -> ExportedProgram:
    """The program as a graph, for any sizes."""
    inputs, _ = program.ports
    dims = {size: Dim(size) for size in SIZES}
    shapes = tuple({axis: dims[side] for axis, side in enumerate(port.shape) if isinstance(side, str)} for port in inputs)
    with warnings.catch_warnings(action="ignore"):
        return torch.export.export(program.module, program.tensors, dynamic_shapes=(shapes,), strict=False)


@contextmanager
def unchanging(module: nn.Module) -> Iterator[None]:
    """Nothing is trained as long as this lasts: a graph of parameters that could be would ask for gradients when it is run."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        with evaluating([module]):
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
