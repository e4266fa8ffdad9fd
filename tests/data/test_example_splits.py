from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.example_splits import PARTS, assign_parts, find_overlaps, hash_keys, split_examples
from clew.data.examples import Labelled, Pair, Text

KEYS = st.lists(st.text("abc", max_size=2), min_size=1, max_size=40)
FRACTIONS = st.sampled_from([(0.1, 0.0), (0.1, 0.1), (0.3, 0.2), (0.0, 0.25)])


def texts_of(count, same=1):
    return [Text(f"text {number // same}", str(number)) for number in range(count)]


@given(
    keys=KEYS,
    fractions=FRACTIONS,
    seed=st.integers(0, 5),
    stratified=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_parts_are_disjoint_complete_and_do_not_depend_on_the_order(keys, fractions, seed, stratified, order):
    examples = [Labelled(key, (str(number % 3),), id=str(number)) for number, key in enumerate(keys)]
    shuffled = examples.copy()
    order.shuffle(shuffled)
    options = {"seed": seed, "valid_fraction": fractions[0], "test_fraction": fractions[1]}
    options["stratify"] = (lambda example: example.label) if stratified else None
    try:
        parts = split_examples(examples, **options)
    except UserError as error:
        with pytest.raises(UserError, match="something to train on"):
            split_examples(shuffled, **options)
        assert len(set(keys)) <= sum(fraction > 0 for fraction in fractions) or stratified, str(error)
        return
    resplit = split_examples(shuffled, **options)
    assert sorted(example.id for part in parts.values() for example in part) == sorted(
        example.id for example in examples
    )
    assert {name: {e.id for e in part} for name, part in parts.items()} == {
        name: {e.id for e in part} for name, part in resplit.items()
    }
    sides = {}
    for name, part in parts.items():
        assert part, name
        assert [int(example.id) for example in part] == sorted(int(example.id) for example in part)
        for example in part:
            assert sides.setdefault(example.text, name) == name
    assert find_overlaps(parts) == []
    assert set(parts) == {"train"} | {name for name, fraction in zip(PARTS[1:], fractions, strict=True) if fraction}


@pytest.mark.parametrize("same", [1, 3, 10])
def test_part_sizes_are_exact_within_half_a_key(same):
    parts = split_examples(texts_of(3000, same), valid_fraction=0.1, test_fraction=0.05)
    assert abs(len(parts["test"]) - 150) <= same / 2
    assert abs(len(parts["valid"]) - 300) <= same / 2


def test_every_label_has_its_fraction_in_every_part():
    labels = ["common"] * 800 + ["rare"] * 150 + ["tiny"] * 20 + ["once"]
    examples = [Labelled(f"text {number}", (label,)) for number, label in enumerate(labels)]
    parts = split_examples(examples, valid_fraction=0.1, test_fraction=0.2, stratify=lambda example: example.label)
    counts = {name: Counter(example.label for example in part) for name, part in parts.items()}
    assert counts["train"]["once"] == 1
    for label, size in (("common", 800), ("rare", 150), ("tiny", 20)):
        assert abs(counts["valid"][label] - 0.1 * size) <= 1
        assert abs(counts["test"][label] - 0.2 * size) <= 1
    assert abs(len(parts["valid"]) - 97) <= 1 and abs(len(parts["test"]) - 194) <= 1


def test_parts_have_the_right_size_with_many_rare_labels():
    examples = [Labelled(f"text {number}", (str(number % 100),)) for number in range(400)]
    parts = split_examples(examples, valid_fraction=0.1, stratify=lambda example: example.label)
    assert len(parts["valid"]) == 40
    assert {example.label for example in parts["train"]} == {str(number) for number in range(100)}


def test_a_text_with_several_labels_stays_in_one_part():
    examples = [Labelled(f"text {number % 50}", (("a", "b")[number % 3 == 0],)) for number in range(300)]
    parts = split_examples(examples, valid_fraction=0.2, stratify=lambda example: example.label)
    assert not {e.text for e in parts["train"]} & {e.text for e in parts["valid"]}


def test_a_key_larger_than_a_part_is_used_for_training():
    for seed in range(20):
        examples = [*texts_of(100), *[Text("n/a")] * 60]
        parts = split_examples(examples, seed=seed, valid_fraction=0.1, test_fraction=0.1)
        assert {name: len(part) for name, part in parts.items()} == {"train": 128, "valid": 16, "test": 16}


def test_every_part_gets_a_key_even_if_all_keys_are_too_large():
    examples = [Text(text) for text in "aabccdd"]
    parts = split_examples(examples, valid_fraction=0.1, test_fraction=0.1)
    assert all(len({example.text for example in parts[name]}) == 1 for name in ("valid", "test"))


def test_another_seed_gives_another_split_and_the_same_seed_the_same():
    ids = [{e.id for e in split_examples(texts_of(200), seed=seed)["valid"]} for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]


def test_adding_examples_moves_few_others_between_parts():
    before = {e.text for e in split_examples(texts_of(1000), valid_fraction=0.1)["valid"]}
    after = {e.text for e in split_examples(texts_of(1010), valid_fraction=0.1)["valid"]}
    assert len(before - after) <= 3


def test_texts_differing_only_in_white_space_are_the_same():
    assert hash_keys(["a  b\n"], 1) == hash_keys([" a b"], 1)
    assert hash_keys(["ab"], 1) != hash_keys(["a b"], 1)


def test_the_hash_is_of_seed_and_text():
    key = blake2b(b"7", digest_size=32).digest()
    expected = [blake2b(text.encode(), digest_size=8, key=key).digest() for text in ("the cat", "die Katze \U0001f408")]
    assert hash_keys(["the cat", "die Katze \U0001f408"], 7).tolist() == [
        int.from_bytes(digest, "little") for digest in expected
    ]


def test_given_parts_are_unchanged():
    train, valid = texts_of(100), texts_of(7)
    parts = split_examples(train, valid, test_fraction=0.1)
    assert parts["valid"] is valid
    assert len(parts["train"]) == 90 and len(parts["test"]) == 10
    assert list(split_examples(train, valid, valid_fraction=0.5)) == ["train", "valid"]
    assert split_examples(train, valid)["train"] is train


def test_pairs_are_split_by_their_source_by_default():
    pairs = [Pair(f"s{number // 4}", f"t{number % 40}") for number in range(200)]
    by_source = split_examples(pairs)
    assert not {p.source for p in by_source["train"]} & {p.source for p in by_source["valid"]}
    by_target = split_examples(pairs, key=lambda pair: pair.target)
    assert not {p.target for p in by_target["train"]} & {p.target for p in by_target["valid"]}


def test_overlap_of_given_parts_is_counted():
    parts = {
        "train": texts_of(10),
        "valid": [Text("text  3", "v:1"), Text("new", "v:2"), Text("text 3", "v:3")],
        "test": [Text("x", "t:1")],
    }
    (overlap,) = find_overlaps(parts)
    assert str(overlap) == "2 of 3 valid examples (66.7%) have a text that the training part has too (first: v:1)"


def test_parts_that_would_be_empty_are_refused():
    with pytest.raises(UserError) as caught:
        split_examples([Text("same")] * 5, valid_fraction=0.1, test_fraction=0.2)
    assert (
        str(caught.value)
        == "5 examples with 1 different text cannot give a valid part (valid_fraction=0.1) and a test part"
        " (test_fraction=0.2) and something to train on; give more examples, or each part as a file"
    )
    with pytest.raises(UserError) as caught:
        split_examples([Labelled(f"{n}", (f"{n}",)) for n in range(9)], stratify=lambda example: example.label)
    assert (
        str(caught.value)
        == "9 examples with 9 different texts, where no label has enough to share, cannot give a valid part"
        " (valid_fraction=0.1) and something to train on; give more examples, or each part as a file"
    )
    assert {name: len(part) for name, part in split_examples(texts_of(3), test_fraction=0.1).items()} == {
        "train": 1,
        "valid": 1,
        "test": 1,
    }


def test_fractions_out_of_range_are_refused():
    with pytest.raises(UserError, match=r"valid_fraction \(1.5\) must be at least 0 and below 1"):
        split_examples(texts_of(9), valid_fraction=1.5)
    message = r"valid_fraction \(0.5\) \+ test_fraction \(0.5\) must be below 1, or nothing is left to train on"
    with pytest.raises(UserError, match=message):
        split_examples(texts_of(9), valid_fraction=0.5, test_fraction=0.5)


def test_parts_can_be_assigned_to_a_stream():
    parts = assign_parts((f"text {number}" for number in range(1000)), seed=1, valid_fraction=0.1, test_fraction=0.2)
    assert np.bincount(parts).tolist() == [700, 100, 200]
