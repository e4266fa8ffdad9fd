"""The precision of a run: float32, TF32 matrix products, or bfloat16 autocast. `auto` is bfloat16 on a GPU that
supports it, else float32."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from clew.runs.config import TrainingConfig


def resolve_precision(precision: str, device: torch.device) -> str:
    """Replace `auto` by the precision for a device."""
    if precision != "auto":
        return precision
    return (
        "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    )


@contextmanager
def precision(training: TrainingConfig, device: torch.device) -> Iterator[Any]:
    """Within this context, torch has the precision of `training`. Yields a function that returns an autocast
    context."""
    matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    chosen = resolve_precision(training.precision, device)
    fast = chosen != "float32"
    torch.set_float32_matmul_precision("high" if fast else "highest")
    torch.backends.cudnn.allow_tf32 = fast

    def autocast() -> AbstractContextManager[Any]:
        return torch.autocast(device.type, torch.bfloat16) if chosen == "bfloat16" else nullcontext()

    try:
        yield autocast
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = cudnn
