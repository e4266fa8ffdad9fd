"""Modes of modules: evaluation, and export to a program."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Disable gradients and put modules into evaluation mode in this context."""
    were = [module.training for module in modules]
    try:
        for module in modules:
            module.eval()
        with torch.no_grad():
            yield
    finally:
        for module, was in zip(modules, were, strict=True):
            module.train(was)


def is_exporting() -> bool:
    """Whether a module is being exported, not compiled: torch 2.11 also reports exporting while it compiles."""
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()
