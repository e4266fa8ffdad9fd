"""Load a run's weights into the model that its config describes."""

from pathlib import Path

import torch

from clew.core.errors import UserError, shortened
from clew.layers.adapters import is_adapted, own_weights
from clew.runs.config import Config
from clew.runs.directory import num_values, read_weights
from clew.runs.folder.run_files import WEIGHTS
from clew.runs.transfer import start_from

SPARE = 2**24
"""How many more values a weights file may have than the model needs to be read at all; then the error names the extra
tensors."""


def load_weights(task: torch.nn.Module, folder: Path, config: Config) -> None:
    """Load the run's weights into `task`; for an adapter, load those of its base run first."""
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
    """Refuse a weights file with many more values than the model before reading it."""
    expected, stored = sum(tensor.numel() for tensor in task.state_dict().values()), num_values(folder / WEIGHTS)
    if stored > 2 * expected + SPARE:
        raise UserError(
            f"{folder / WEIGHTS} does not fit the model that {folder / 'config.json'} describes: it has {stored:,}"
            f" values, and the model {expected:,}; copy both again"
        )


def check_own(task: torch.nn.Module, weights: dict[str, torch.Tensor], folder: Path) -> None:
    """Check that an adapter's file has exactly the weights that its base run lacks."""
    expected = own_weights(task, task.state_dict()).keys()
    for name in sorted(expected ^ weights.keys()):
        what = "lacks" if name in expected else "has a tensor that is not the adapter's:"
        raise UserError(
            f"{folder / WEIGHTS} does not fit the model that {folder / 'config.json'} describes: it {what}"
            f" {shortened(name)}"
        )
