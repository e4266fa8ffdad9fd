"""The peak speed and memory of the machine, to compare with the speed and memory of a run."""

import torch

PEAKS = {
    # TFLOP/s without sparsity, from the vendors' data sheets: float32, TF32, bfloat16
    "H200": (67, 494, 989),
    "H100": (67, 494, 989),
    "GH200": (67, 494, 989),
    "B200": (80, 1125, 2250),
    "A100": (19.5, 156, 312),
    "A10G": (31.2, 35, 70),
    "A10": (31.2, 62.5, 125),
    "L40S": (91.6, 183, 362),
    "L4": (30.3, 60, 121),
    "V100": (15.7, 15.7, 15.7),
    "T4": (8.1, 8.1, 8.1),
    "RTX 4090": (82.6, 82.6, 165),
    "RTX 3090": (35.6, 35.6, 71),
}
PRECISIONS = ("float32", "tf32", "bfloat16")


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the peak FLOP/s of a GPU in a precision, or None for an unknown device."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    known = max((key for key in PEAKS if key in name), key=len, default=None)
    return None if known is None else PEAKS[known][PRECISIONS.index(precision)] * 1e12


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory allocated on a GPU, in bytes; None on other devices."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
