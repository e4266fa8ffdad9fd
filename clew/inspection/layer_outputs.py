"""Outputs of the layers of any torch module, by hooks. Its layers are the members of its outermost `ModuleList`s and
`Sequential`s, or its children if it has none."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

INPUT = "input"
OUTPUT = "output"


class LayerOutput(NamedTuple):
    """`values` (places, dim) of one row at the path of a layer, whichever axis its places are on."""

    path: str
    values: Tensor


def find_layers(module: nn.Module) -> dict[str, nn.Module]:
    """Return the layers of a module by path, in the order of construction."""
    layers: dict[str, nn.Module] = {}
    for path, part in module.named_modules():
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and not any(
            path == other or path.startswith(f"{other}.") for other in layers
        ):
            layers.update({f"{path}.{name}".lstrip("."): member for name, member in part.named_children()})
    return layers or dict(module.named_children())


def layer_outputs(module: nn.Module, call: Callable[[], Any]) -> list[LayerOutput]:
    """Return the input of the first layer, the output of each layer in order of calls, and the module's output if it
    differs from the last, for one call of the module."""
    outputs: list[LayerOutput] = []

    def record_input(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value = first_tensor((*args, *kwargs.values()))
        if not outputs and value is not None and value.is_floating_point() and value.dim() > 1:
            outputs.append(LayerOutput(INPUT, flatten_places(value)))

    def recorder_of(path: str) -> Callable[..., None]:
        def record_output(layer: nn.Module, args: Any, output: Any) -> None:
            value = first_tensor(output)
            if value is not None and value.is_floating_point() and value.dim() > 1:
                outputs.append(LayerOutput(path, flatten_places(value)))

        return record_output

    layers = find_layers(module)
    hooks = [layer.register_forward_pre_hook(record_input, with_kwargs=True) for layer in layers.values()]
    hooks += [layer.register_forward_hook(recorder_of(path)) for path, layer in layers.items()]
    try:
        output = first_tensor(call())
    finally:
        for hook in hooks:
            hook.remove()
    if output is not None and output.dim() > 1 and not (outputs and same(outputs[-1].values, flatten_places(output))):
        outputs.append(LayerOutput(OUTPUT, flatten_places(output)))
    return outputs


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def flatten_places(value: Tensor) -> Tensor:
    """Flatten the values of one row to (places, dim)."""
    return value.detach().reshape(-1, value.shape[-1])


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor in a module's input or output: the value itself, or the first in a tuple, list or
    mapping."""
    if isinstance(value, Tensor):
        return value
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    return next((tensor for part in parts if (tensor := first_tensor(part)) is not None), None)
