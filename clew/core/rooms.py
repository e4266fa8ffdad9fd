"""Make a package's modules its attributes. Each is imported on first access, so that tab completion finds
`clew.layers.attention`."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def show_modules(package: str) -> None:
    """Set `__getattr__` and `__dir__` of a package. They are not written in its file, so that type checkers still know
    its names."""
    module = sys.modules[package]
    getter, lister = attributes_of(module)
    vars(module).update(__getattr__=getter, __dir__=lister)


def attributes_of(module: ModuleType) -> tuple[Callable[[str], ModuleType], Callable[[], list[str]]]:
    def get(name: str) -> ModuleType:
        if not name.startswith("_") and name in modules_in(module):
            return import_module(f"{module.__name__}.{name}")
        raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")

    def names() -> list[str]:
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        return sorted({*own, *modules_in(module)})

    return get, names


def modules_in(module: ModuleType) -> set[str]:
    """Modules and packages in a package's folder."""
    names = set[str]()
    for place in module.__path__:
        with os.scandir(place) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".py")
                is_package = entry.is_dir() and os.path.isfile(os.path.join(entry.path, "__init__.py"))
                if name.isidentifier() and not name.startswith("_") and (entry.name.endswith(".py") or is_package):
                    names.add(name)
    return names
