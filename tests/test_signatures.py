"""Public functions of the package and methods of a run have a precise return type."""

import inspect
import re
from types import FunctionType

import pytest

import clew
from clew.runs.loaded import Run

PUBLIC = [
    clew.train,
    clew.fit,
    clew.load,
    clew.translate,
    clew.look,
    clew.from_torch,
    *(each for name, each in vars(Run).items() if not name.startswith("_")),
]


@pytest.mark.parametrize("member", PUBLIC, ids=lambda each: getattr(each, "__name__", None) or each.fget.__name__)
def test_public_members_have_a_precise_return_type(member: FunctionType | property) -> None:
    function = member.fget if isinstance(member, property) else member
    assert function is not None
    annotation = inspect.signature(function).return_annotation
    assert annotation is not inspect.Signature.empty and not re.fullmatch(r"(typing\.)?Any", str(annotation))
