"""Compare a module with a NumPy function: all values, and gradients by central differences at a few entries of each
array."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

STEP = 1e-5


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in float64 with every parameter from N(0, 0.5), so that none is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def assert_agrees(
    module: nn.Module,
    call: Callable[..., Tensor],
    reference: Callable[..., np.ndarray],
    *inputs: Tensor,
    near: float = 1e-9,
    entries: int = 3,
) -> None:
    """`call(*inputs)` is the module's output; `reference(parameters by name, *arrays)` is the expected one."""
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    named = dict(module.named_parameters())
    arrays = {name: p.detach().numpy().copy() for name, p in named.items()}
    originals = [x.detach().numpy().copy() for x in inputs]
    y = call(*inputs)
    np.testing.assert_allclose(y.detach().numpy(), reference(arrays, *originals), rtol=near, atol=near)

    weights = randn(*y.shape, seed=1)
    checked = {**named, **{f"input {i}": x for i, x in enumerate(inputs)}}
    gradients = torch.autograd.grad((y * weights).sum(), list(checked.values()), allow_unused=True)
    rng = np.random.default_rng(0)
    for name, gradient in zip(checked, gradients, strict=True):
        array = arrays[name] if name in arrays else originals[int(name.split()[1])]
        for flat in rng.choice(array.size, size=min(entries, array.size), replace=False):
            place = np.unravel_index(flat, array.shape)
            original, ends = array[place], []
            for step in (STEP, -STEP):
                array[place] = original + step
                ends.append(float((reference(arrays, *originals) * weights.numpy()).sum()))
            array[place] = original
            slope = 0.0 if gradient is None else float(gradient[tuple(int(i) for i in place)])
            np.testing.assert_allclose(
                slope, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-5, atol=1e-6, err_msg=f"gradient of {name} at {place}"
            )
