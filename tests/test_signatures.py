"""What people call has types: no function of the package and no method of a run gives back anything at all."""

import inspect
import re
from types import FunctionType

import pytest

import clew
from clew.runs.loaded import Run

CALLED = [
    clew.train,
    clew.fit,
    clew.load,
    clew.translate,
    clew.look,
    clew.from_torch,
    *(each for name, each in vars(Run).items() if not name.startswith("_")),
]


@pytest.mark.parametrize("called", CALLED, ids=lambda each: getattr(each, "__name__", None) or each.fget.__name__)
def test_what_is_called_says_what_it_gives_back(called: FunctionType | property) -> None:
    function = called.fget if isinstance(called, property) else called
    assert function is not None
    given = inspect.signature(function).return_annotation
    assert given is not inspect.Signature.empty and not re.fullmatch(r"(typing\.)?Any", str(given))
