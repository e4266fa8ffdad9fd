from itertools import product

import pytest

from clew.core.errors import UserError
from clew.core.tag_schemes import (
    SCHEMES,
    Transitions,
    allowed_transitions,
    convert_tags,
    detect_scheme,
    find_tag_fault,
    plain_tags,
    span_tags,
    tag_spans,
)
from clew.core.trees import Span

EXAMPLE = {
    "iob1": "I-PER I-PER B-PER O I-PER",
    "iob2": "B-PER I-PER B-PER O B-PER",
    "bioes": "B-PER E-PER S-PER O S-PER",
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("target", SCHEMES)
def test_the_example_of_the_docstring_is_correct(scheme, target):
    assert tag_spans(EXAMPLE[scheme].split()) == [Span("PER", 0, 2), Span("PER", 2, 3), Span("PER", 4, 5)]
    assert convert_tags(EXAMPLE[scheme].split(), target) == EXAMPLE[target].split()
    assert detect_scheme([EXAMPLE[scheme].split()]) == scheme


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("", []),
        ("O O", []),
        ("I-X I-X", [("X", 0, 2)]),
        ("O I-X O", [("X", 1, 2)]),
        ("I-X I-Y", [("X", 0, 1), ("Y", 1, 2)]),
        ("B-X I-Y I-Y", [("X", 0, 1), ("Y", 1, 3)]),
        ("B-X B-X", [("X", 0, 1), ("X", 1, 2)]),
        ("I-X B-X I-X", [("X", 0, 1), ("X", 1, 3)]),
        ("B-X O I-X", [("X", 0, 1), ("X", 2, 3)]),
        ("I-X E-X I-X E-X", [("X", 0, 2), ("X", 2, 4)]),  # IOE
        ("E-X E-X", [("X", 0, 1), ("X", 1, 2)]),
        ("S-X S-X I-X", [("X", 0, 1), ("X", 1, 2), ("X", 2, 3)]),
        ("B-X E-X I-X", [("X", 0, 2), ("X", 2, 3)]),
        ("B-X S-X E-X", [("X", 0, 1), ("X", 1, 2), ("X", 2, 3)]),
        ("B-PER-x I-PER-x I-PER", [("PER-x", 0, 2), ("PER", 2, 3)]),
        ("B I O I", [("", 0, 2), ("", 3, 4)]),
    ],
)
def test_malformed_tags_are_read(tags, spans):
    assert tag_spans(tags.split()) == [Span(*span) for span in spans]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_are_valid_exactly_if_their_spans_give_the_same_tags(scheme):
    """For all sequences of up to four tags, and the transitions agree."""
    tags = ["O"] + [f"{prefix}-{label}" for prefix in SCHEMES[scheme].replace("O", "") for label in "XY"]
    allowed = allowed_transitions(tags, scheme)
    right = 0
    for length in range(5 if scheme != "bioes" else 4):
        for places in product(range(len(tags)), repeat=length):
            sequence = [tags[place] for place in places]
            is_consistent = span_tags(tag_spans(sequence), length, scheme) == sequence
            assert (find_tag_fault(sequence, scheme) is None) == is_consistent
            steps = all(allowed.between[a][b] for a, b in zip(places, places[1:], strict=False))
            assert (steps and (not places or (allowed.first[places[0]] and allowed.last[places[-1]]))) == is_consistent
            right += is_consistent
            if is_consistent:
                for other_scheme in SCHEMES:
                    assert convert_tags(convert_tags(sequence, other_scheme), scheme) == sequence
    assert right > 30


def test_each_scheme_allows_the_expected_transitions_of_three_tags():
    assert allowed_transitions(["O", "B-X", "I-X"], "iob2") == Transitions(
        ((True, True, False), (True, True, True), (True, True, True)), (True, True, False), (True, True, True)
    )
    assert allowed_transitions(["O", "B-X", "I-X"], "iob1") == Transitions(
        ((True, False, True), (True, True, True), (True, True, True)), (True, False, True), (True, True, True)
    )
    assert allowed_transitions(["O", "B-X", "E-X"], "bioes") == Transitions(
        ((True, True, False), (False, False, True), (True, True, False)), (True, True, False), (True, False, True)
    )


def test_a_tag_outside_a_scheme_is_never_allowed():
    assert not any(row[1] for row in allowed_transitions(["O", "S-X"], "iob2").between)


def test_the_scheme_is_the_one_violated_by_the_fewest_sentences():
    assert detect_scheme([["O", "O"], []]) == "iob2"
    assert detect_scheme([["B-X", "I-X"], ["I-X", "O"], ["B-Y"]]) == "iob2"
    assert detect_scheme([["I-X", "O"], ["I-X", "B-X"], ["B-Y"]]) == "iob1"
    assert detect_scheme([["S-X"]]) == "bioes"
    assert detect_scheme([["O"], ["DT", "NN"]]) is None


@pytest.mark.parametrize(
    ("tags", "scheme", "place", "sentence"),
    [
        ("O I-X", "iob2", 1, "the tag 'I-X' cannot stand after 'O' in IOB2"),
        ("I-X", "iob2", 0, "the tag 'I-X' cannot stand at the start of a sentence in IOB2"),
        ("O B-X", "iob1", 1, "the tag 'B-X' cannot stand after 'O' in IOB1"),
        ("O B-X I-X", "bioes", 2, "the tag 'I-X' cannot stand at the end of a sentence in BIOES"),
        ("B-X E-Y", "bioes", 1, "the tag 'E-Y' cannot stand after 'B-X' in BIOES"),
    ],
)
def test_a_fault_is_reported_with_its_place(tags, scheme, place, sentence):
    assert find_tag_fault(tags.split(), scheme) == (place, sentence)


def test_tags_outside_a_scheme_are_rejected():
    with pytest.raises(
        UserError, match="the tag 'NN' belongs to no scheme; a tag is O, or B-, I-, E- or S- and a label"
    ):
        tag_spans(["O", "NN"])
    with pytest.raises(UserError, match="unknown scheme 'iob'; did you mean 'iob2'\\? known: bioes, iob1, iob2"):
        convert_tags(["O"], "iob")


@pytest.mark.parametrize("spans", [[("X", 0, 0)], [("X", 0, 3)], [("X", 0, 2), ("Y", 1, 2)], [("X", -1, 1)]])
def test_impossible_spans_are_rejected(spans):
    with pytest.raises(
        UserError, match="must have words, lie within the 2 of its sentence and not overlap another span"
    ):
        span_tags([Span(*span) for span in spans], 2, "iob2")


@pytest.mark.parametrize(
    "tags", [["O", "B-A", "I-A", "E-A", "S-A", "I-B", "E-B"], ["B", "I", "S"], ["I-A", "O", "I-A-B"]]
)
def test_malformed_tags_are_converted_to_iob2_by_a_table_of_pairs(tags):
    plain = plain_tags(tags)
    for sentence in product(range(len(tags)), repeat=4):
        pairs = zip(sentence, sentence[1:], strict=False)
        plain_ids = [plain.first[sentence[0]], *(plain.after[before][tag] for before, tag in pairs)]
        assert [plain.names[tag] for tag in plain_ids] == convert_tags([tags[tag] for tag in sentence], "iob2")
