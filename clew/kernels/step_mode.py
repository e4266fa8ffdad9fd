"""The contexts in which decoding runs where it is not captured: on each device torch's functions in the forms that suit few rows."""

from contextlib import AbstractContextManager, nullcontext

import torch

from clew.kernels import runs_equations
from clew.kernels.few_rows import few_rows
from clew.kernels.few_rows_on_cpu import FewRowsOnCPU


def step_mode(device: torch.device) -> AbstractContextManager[object]:
    """For a step; few rows."""
    return reading_mode(device) if device.type == "cpu" else few_rows(device) or nullcontext()


def reading_mode(device: torch.device) -> AbstractContextManager[object]:
    """For a prompt or a source; many rows."""
    return FewRowsOnCPU() if device.type == "cpu" and not runs_equations() else nullcontext()
