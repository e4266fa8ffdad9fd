"""Choose the device that a model runs on."""

import torch

from clew.core.errors import UserError, unknown


def choose_device(name: str) -> tuple[torch.device, str]:
    """Return the device and the reason for it. `auto` chooses a GPU if there is one."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda"), f"cuda ({torch.cuda.get_device_name()}): a GPU is available"
        if torch.backends.mps.is_available():
            return torch.device("mps"), "mps: this Mac has a GPU"
        return torch.device("cpu"), f"cpu ({torch.get_num_threads()} threads): no GPU was found"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name not in available:
        raise unknown("device", name, ["auto", *available])
    if not available[name]:
        gpu = "a Mac's GPU" if name == "mps" else "a GPU"
        raise UserError(
            f"device={name} needs {gpu} that torch can use, and there is none; use device=auto or device=cpu"
        )
    return torch.device(name), f"{name}: as requested"
