from typing import NamedTuple

import numpy as np
import pytest

from clew.data.caching.packing import Packer, Unpackable, Unpacker, class_name, class_named
from clew.data.examples import Answer, LabelledTree, Question, Sentence
from clew.sources.words import EncodedWords

VALUES = [
    Question("who?", "it was Ada", (Answer("Ada", 7),), "file:1"),
    Sentence(
        ("a", "", "été"), None, (2, 0, 2), ("det", "root", "obj"), "file:2", (((2, "det"),), (), ((2, "obj"), (1, "x")))
    ),
    EncodedWords([1, 2], [0, 1], [1, 2], [[3], [4, 5]], EncodedWords([7], [0], [1]), [0, 0]),
    [0.5, -1.0],
    ([1, 2], (1, 2), ["a"], ("a",), [], (), [1.0], (1.0,), [None, True, False], (1, "a", 2.5)),
    "\ud800 half a character",
    -(2**31),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_unpacking_restores_values_and_their_types(value):
    packer = Packer()
    row = packer.pack(value)
    unpacked = Unpacker(packer.classes).unpack(row)
    assert unpacked == value
    assert repr(unpacked) == repr(value)


def test_unpacking_restores_arrays_with_type_and_shape():
    packer = Packer()
    for array in (np.array([[1, 2], [3, 4]]), np.zeros((0, 2), np.int32), np.array([True, False])):
        unpacked = Unpacker(packer.classes).unpack(packer.pack(array))
        assert unpacked.dtype == array.dtype
        assert unpacked.shape == array.shape
        assert (unpacked == array).all()


def test_classes_are_numbered_in_order_of_first_use():
    packer = Packer()
    rows = [packer.pack(value) for value in VALUES[:3]]
    assert [kind.__name__ for kind in packer.classes] == ["Question", "Answer", "Sentence", "EncodedWords"]
    assert [Unpacker(packer.classes).unpack(row) for row in rows] == VALUES[:3]


def test_values_not_made_of_strings_and_numbers_cannot_be_packed():
    class Local(NamedTuple):
        text: str

    nested: list = []
    nested.append(nested)
    for value in (
        object(),
        {"a": 1},
        [1, object()],
        2**31,
        LabelledTree,
        Local("of no module"),
        nested,
        np.array([0.5]),
    ):
        with pytest.raises(Unpackable):
            Packer().pack(value)


def test_a_class_with_changed_fields_is_not_recognised():
    name = class_name(Sentence)
    assert class_named(name) is Sentence
    assert class_named(name.replace("words,tags", "tags,words")) is None
    assert class_named(name.removesuffix(f",{Sentence._fields[-1]}")) is None
