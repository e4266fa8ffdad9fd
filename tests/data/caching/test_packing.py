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
def test_a_value_comes_back_equal_and_of_the_same_types(value):
    packer = Packer()
    row = packer.pack(value)
    again = Unpacker(packer.classes).unpack(row)
    assert again == value
    assert repr(again) == repr(value)


def test_arrays_come_back_with_their_type_and_shape():
    packer = Packer()
    for array in (np.array([[1, 2], [3, 4]]), np.zeros((0, 2), np.int32), np.array([True, False])):
        again = Unpacker(packer.classes).unpack(packer.pack(array))
        assert again.dtype == array.dtype
        assert again.shape == array.shape
        assert (again == array).all()


def test_classes_have_the_codes_in_which_they_were_met():
    packer = Packer()
    rows = [packer.pack(value) for value in VALUES[:3]]
    assert [kind.__name__ for kind in packer.classes] == ["Question", "Answer", "Sentence", "EncodedWords"]
    assert [Unpacker(packer.classes).unpack(row) for row in rows] == VALUES[:3]


def test_what_is_not_made_of_strings_and_numbers_cannot_be_packed():
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


def test_a_class_whose_fields_have_changed_is_another():
    name = class_name(Sentence)
    assert class_named(name) is Sentence
    assert class_named(name.replace("words,tags", "tags,words")) is None
    assert class_named(name.removesuffix(f",{Sentence._fields[-1]}")) is None
