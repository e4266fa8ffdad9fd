"""What every layer of a module gives, by hooks; works on any torch module. Which parts are its layers is told by how it is built: the
members of its lists and sequences of modules, the outermost ones, or where there are none its children."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

INPUT = "input"
OUTPUT = "output"


class LayerOutput(NamedTuple):
    """`values` (places, dim) at the path of a layer; of one row, whatever axis its places are on."""

    path: str
    values: Tensor


def find_layers(module: nn.Module) -> dict[str, nn.Module]:
    """The layers of a module by path, in the order they were built."""
    found: dict[str, nn.Module] = {}
    for path, part in module.named_modules():
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and not any(path == other or path.startswith(f"{other}.") for other in found):
            found.update({f"{path}.{name}".lstrip("."): member for name, member in part.named_children()})
    return found or dict(module.named_children())


def layer_outputs(module: nn.Module, call: Callable[[], Any]) -> list[LayerOutput]:
    """While the module is called once: what goes into its first layer, what each layer gives, in the order of the calls, and what the
    module gives where that is something else."""
    found: list[LayerOutput] = []

    def entered(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value = first_tensor((*args, *kwargs.values()))
        if not found and value is not None and value.is_floating_point() and value.dim() > 1:
            found.append(LayerOutput(INPUT, rows_of(value)))

    def left(path: str) -> Callable[..., None]:
        def keep(layer: nn.Module, args: Any, output: Any) -> None:
            value = first_tensor(output)
            if value is not None and value.is_floating_point() and value.dim() > 1:
                found.append(LayerOutput(path, rows_of(value)))

        return keep

    layers = find_layers(module)
    hooks = [layer.register_forward_pre_hook(entered, with_kwargs=True) for layer in layers.values()]
    hooks += [layer.register_forward_hook(left(path)) for path, layer in layers.items()]
    try:
        output = first_tensor(call())
    finally:
        for hook in hooks:
            hook.remove()
    if output is not None and output.dim() > 1 and not (found and same(found[-1].values, rows_of(output))):
        found.append(LayerOutput(OUTPUT, rows_of(output)))
    return found


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def rows_of(value: Tensor) -> Tensor:
    """(places, dim) of one row."""
    return value.detach().reshape(-1, value.shape[-1])


def first_tensor(value: Any) -> Tensor | None:
    """The first tensor in what a module is given or gives: itself, or the first of a tuple, a mapping or a value with fields."""
    if isinstance(value, Tensor):
        return value
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    return next((found for part in parts if (found := first_tensor(part)) is not None), None)
