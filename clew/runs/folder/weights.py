"""The weights of a run, put into the modules that its config describes."""

from pathlib import Path

import torch

from clew.core.errors import UserError, shortened
from clew.layers.adapters import is_adapted, own_weights
from clew.runs.config import Config
from clew.runs.directory import WEIGHTS, num_values, read_weights
from clew.runs.transfer import start_from

SPARE = 2**24
"""How many more numbers a weights file may have than the model needs. Up to this it is read, and the error names the
extra tensors."""


def load_weights(task: torch.nn.Module, folder: Path, config: Config) -> None:
    """The run's weights; where it is an adapter, after those of the run that it stands on."""
    check_amount(task, folder)
    weights = read_weights(folder / WEIGHTS)
    if is_adapted(task):
        start_from(task, config, folder)
        check_own(task, weights, folder)
    try:
        task.load_state_dict(weights, strict=not is_adapted(task))
    except RuntimeError as error:
        detail = shortened(str(error).strip().splitlines()[-1].strip(), 200)
        raise UserError(
            f"{folder / WEIGHTS} does not fit the model that {folder / 'config.json'} describes: {detail}"
        ) from None


def check_amount(task: torch.nn.Module, folder: Path) -> None:
    """Refuses a file with many more numbers than the model has before they are read."""
    expected, found = sum(tensor.numel() for tensor in task.state_dict().values()), num_values(folder / WEIGHTS)
    if found > 2 * expected + SPARE:
        raise UserError(
            f"{folder / WEIGHTS} does not fit the model that {folder / 'config.json'} describes: it has {found:,}"
            f" numbers, and the model {expected:,}; copy both again"
        )


def check_own(task: torch.nn.Module, weights: dict[str, torch.Tensor], folder: Path) -> None:
    """An adapter's file has just what the other run has not."""
    expected = own_weights(task, task.state_dict()).keys()
    for name in sorted(expected ^ weights.keys()):
        what = "lacks" if name in expected else "has more than its adapter:"
        raise UserError(
            f"{folder / WEIGHTS} does not fit the model that {folder / 'config.json'} describes: it {what}"
            f" {shortened(name)}"
        )
