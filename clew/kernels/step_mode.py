"""The contexts in which decoding runs where it is not captured: on each device torch's functions in the forms that suit few rows."""

from contextlib import AbstractContextManager, nullcontext

import torch

from clew.kernels import runs_equations
from clew.kernels.few_rows import few_rows
from clew.kernels.few_rows_on_cpu import FewRowsOnCPU


def step_mode(device: torch.device) -> AbstractContextManager[object]:
    """For a step; few rows."""
    return on_cpu() if device.type == "cpu" else few_rows(device) or nullcontext()


def reading_mode(device: torch.device) -> AbstractContextManager[object]:
    """For a prompt or a source; many rows. Training and compiled code do without."""
    is_training = torch.compiler.is_compiling() or torch.is_grad_enabled()
    return nullcontext() if is_training or device.type != "cpu" else on_cpu()


def on_cpu() -> AbstractContextManager[object]:
    return nullcontext() if runs_equations() else FewRowsOnCPU()
