"""What modules are doing: being asked, not trained; being made a program."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Without gradients, and in evaluation mode as long as this lasts."""
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
    """Whether a program is being made of a module, rather than compiled code: to code that it compiles, torch 2.11 says that it exports."""
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()
