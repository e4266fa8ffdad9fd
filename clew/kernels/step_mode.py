"""Contexts for decoding without capture. On each device they replace torch's functions by kernels for few rows."""

from contextlib import AbstractContextManager, nullcontext

import torch

from clew.kernels import runs_equations
from clew.kernels.few_rows import few_rows
from clew.kernels.few_rows_on_cpu import FewRowsOnCPU


def step_mode(device: torch.device) -> AbstractContextManager[object]:
    """Return the context for a step, with few rows."""
    return on_cpu() if device.type == "cpu" else few_rows(device) or nullcontext()


def reading_mode(device: torch.device) -> AbstractContextManager[object]:
    """Return the context for a prompt or a source, with many rows. It has no effect in training and compiled code."""
    is_training = torch.compiler.is_compiling() or torch.is_grad_enabled()
    return nullcontext() if is_training or device.type != "cpu" else on_cpu()


def on_cpu() -> AbstractContextManager[object]:
    return nullcontext() if runs_equations() else FewRowsOnCPU()
