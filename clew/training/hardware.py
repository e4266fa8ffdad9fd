"""What the machine could do at most, to set beside what a run does."""

import torch

PEAKS = {
    # TFLOP/s without sparsity, from the makers' data sheets: float32, TF32, bfloat16
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
    """The FLOP/s that a GPU can do at most in a precision, where it is a known one."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    known = max((key for key in PEAKS if key in name), key=len, default=None)
    return None if known is None else PEAKS[known][PRECISIONS.index(precision)] * 1e12


def peak_memory(device: torch.device) -> int | None:
    """The most memory a run has held on a GPU, in bytes."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
