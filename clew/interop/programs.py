"""Export programs with torch.export: graphs with weights that torch runs without clew, for any batch size and
length."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.interop.description import write_description
from clew.interop.options import ExportOptions
from clew.interop.signatures import SIZES, Program, check_same
from clew.interop.task_programs import programs_of
from clew.runs.loaded import Run


def export_torch(run: Run, folder: Path, options: ExportOptions) -> None:
    """Write a .pt2 file for each program."""
    programs = programs_of(run)
    with without_gradients(run.task):
        for program in programs:
            graph = exported(program)
            module = graph.module()
            check_same(program, lambda tensors, module=module: module(*tensors))  # type: ignore[misc]
            with quiet():
                torch.export.save(graph, folder / f"{program.name}.pt2")
        write_description(run, folder, programs, "torch", options)


def exported(program: Program) -> ExportedProgram:
    """Trace a program to a graph with dynamic sizes."""
    inputs, _ = program.ports
    dims = {size: Dim(size) for size in SIZES}
    shapes = tuple(
        {axis: dims[side] for axis, side in enumerate(port.shape) if isinstance(side, str)} for port in inputs
    )
    try:
        with quiet():
            graph = torch.export.export(program.module, program.tensors, dynamic_shapes=(shapes,), strict=False)
    except Exception as error:  # raised with any type if a layer cannot be traced
        raise refusal("torch.export", program, error) from error
    drop_unused(graph)
    return graph


def refusal(tool: str, program: Program, error: Exception) -> UserError:
    reason = str(error).strip().partition("\n")[0]
    return UserError(
        f"{tool} cannot write the program '{program.name}' of this model: {type(error).__name__}: {reason}"
    )


def drop_unused(program: ExportedProgram) -> None:
    """Drop nodes and weights that no output depends on, copy the weights that share storage, and delete stack traces.

    An encoder's program is traced through a step of the decoder, and each program holds all weights of the model.
    A weight that is a view of a block would save the whole block in each file. Stack traces contain paths of this
    machine.
    """
    graph, weights = program.graph_module.graph, program.state_dict
    graph.eliminate_dead_code()
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    for spec in list(program.graph_signature.input_specs):
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER):
            continue
        if not nodes[spec.arg.name].users:
            graph.erase_node(nodes[spec.arg.name])
            program.graph_signature.input_specs.remove(spec)
            weights.pop(spec.target or "", None)
        elif spec.kind is InputKind.PARAMETER:
            weights[spec.target or ""] = nn.Parameter(weights[spec.target or ""].detach().clone(), requires_grad=False)
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            node.meta.pop("stack_trace", None)
    program.graph_module.recompile()


@contextmanager
def without_gradients(module: nn.Module) -> Iterator[None]:
    """Turn off the gradients of all parameters within the context; otherwise the graph would track gradients when it
    runs."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        with evaluating([module]):
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress torch's warnings about optional packages and its own deprecated calls within the context."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
