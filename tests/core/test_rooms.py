"""Tab completion of clew offers its functions, types and packages, and nothing that its files import."""

import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.core.rooms import modules_in

ROOT = Path(clew.__file__).parents[1]


def test_completion_offers_every_package_except_those_of_commands() -> None:
    commands = {"bench", "cli", "serving", "tour"}
    assert {name for name in dir(clew) if name in modules_in(clew)} == modules_in(clew) - commands


def test_no_name_of_another_module_leaks() -> None:
    assert {"Any", "overload", "TYPE_CHECKING", "in_python", "annotations"}.isdisjoint(dir(clew))
    assert {"show_modules", "import_module", "Path"}.isdisjoint(dir(clew.layers))
    assert {name for name in dir(clew) if not name.startswith("_")} >= {
        "train",
        "fit",
        "load",
        "look",
        "record",
        "Run",
        "UserError",
        "layers",
    }


def test_modules_are_accessible_without_an_import() -> None:
    from clew.layers.attention import SelfAttention

    assert clew.layers.attention.SelfAttention is SelfAttention
    assert "attention" in dir(clew.layers) and "huggingface" in modules_in(clew.interop)
    with pytest.raises(AttributeError, match="module 'clew.layers' has no attribute 'attetnion'"):
        clew.layers.attetnion  # type: ignore[attr-defined]  # noqa: B018
    for name in dir(clew):
        if name != "sklearn":  # needs an optional package
            getattr(clew, name)


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, clew; dir(clew); dir(clew.layers); print({'torch', 'numpy', 'pydantic', 'sklearn'} &"
        " set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        == "set()\n"
    )
