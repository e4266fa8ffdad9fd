"""Split examples into training, validation and test parts by hash, and find what the parts have in common.

Every example has a key (its text, its source). Every key has a number: a hash of the seed and of the key with its white
space normalised. Keys are sorted by their numbers: the first make up the test part, the next the validation part, and
the rest the training part. So a part depends on the seed and on the set of examples, not on their order; examples with
the same key are in the same part; and when examples are added, few others move. The size of a part is its share of the
examples, rounded, and off by at most half of the examples of its last key. A key with more examples than the smallest
held-out part goes to the training part.

With strata (labels), each stratum is split in this way, and its rounding error is carried over to the next. Every
stratum keeps a key to train on. A key whose examples differ in label belongs to the most frequent of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np

from clew.core.errors import UserError
from clew.data.caching.parts import examples_at
from clew.data.examples import Example
from clew.data.splits import check_fraction

E = TypeVar("E", bound=Example)

PARTS = ("train", "valid", "test")
Key = Callable[[Any], str]


def split_examples(
    train: Sequence[E],
    valid: Sequence[E] | None = None,
    test: Sequence[E] | None = None,
    *,
    seed: int = 1,
    valid_fraction: float = 0.1,
    test_fraction: float = 0.0,
    key: Key | None = None,
    stratify: Key | None = None,
) -> dict[str, Sequence[E]]:
    """Return the parts by name: `train`, and `valid` and `test` if there are any, each in the order of the file.

    Given parts are kept; a missing part is taken out of the training examples. Examples with the same `key` count as
    the same. `stratify` gives the label whose proportions every part should keep.
    """
    check_fraction("valid_fraction", valid_fraction)
    check_fraction("test_fraction", test_fraction)
    own_parts = {name: part for name, part in (("valid", valid), ("test", test)) if part is not None}
    numbers = assign_parts(
        map(key_of if key is None else key, train),
        None if stratify is None else map(stratify, train),
        seed=seed,
        valid_fraction=0.0 if "valid" in own_parts else valid_fraction,
        test_fraction=0.0 if "test" in own_parts else test_fraction,
    )
    cut: dict[str, Sequence[E]] = {}
    for number, name in enumerate(PARTS):
        members = np.flatnonzero(numbers == number)
        if name not in own_parts and (len(members) or name == "train"):
            cut[name] = train if len(members) == len(train) else examples_at(train, members)
    return {name: part for name in PARTS for part in [own_parts.get(name, cut.get(name))] if part is not None}


def assign_parts(
    keys: Iterable[str],
    strata: Iterable[str] | None = None,
    *,
    seed: int,
    valid_fraction: float,
    test_fraction: float,
) -> np.ndarray:
    """Return the part of every example, (example,): 0 train, 1 valid, 2 test. Of the keys, only 8 bytes for each
    example are held in memory."""
    held_out = test_fraction + valid_fraction
    if held_out >= 1:
        raise UserError(
            f"valid_fraction ({valid_fraction}) + test_fraction ({test_fraction}) must be below 1, or nothing is left"
            " to train on"
        )
    hashes = hash_keys(keys, seed)
    parts = np.zeros(len(hashes), dtype=np.int8)
    fractions = {name: fraction for name, fraction in (("test", test_fraction), ("valid", valid_fraction)) if fraction}
    if not fractions:
        return parts
    # Groups in the order of their hashes.
    _, group_of, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    if len(counts) <= len(fractions):
        raise too_few(len(counts), len(hashes), fractions)
    stratum_of = np.zeros(len(counts), dtype=np.int64) if strata is None else group_strata(group_of, strata)
    group_parts = assign_groups(counts, stratum_of, fractions, stratified=strata is not None)
    for name in fractions:
        if not (group_parts == PARTS.index(name)).any():
            raise too_few(len(counts), len(hashes), fractions, stratified=True)
    return group_parts[group_of]


def assign_groups(
    counts: np.ndarray, stratum_of: np.ndarray, fractions: dict[str, float], stratified: bool
) -> np.ndarray:
    """Return the part of every group. Groups come in the order in which they are taken."""
    parts = np.zeros(len(counts), dtype=np.int8)
    smallest_part = min(counts.sum() * fraction for fraction in fractions.values())
    # So that every part gets a group.
    largest = max(smallest_part, np.partition(counts, len(fractions) - 1)[len(fractions) - 1])
    shared = np.flatnonzero(np.bincount(stratum_of)[stratum_of] > 1)  # a stratum's only group is trained on
    order = shared[np.argsort(stratum_of[shared], kind="stable")]
    carried = dict.fromkeys(fractions, 0.0)
    for members in np.split(order, np.flatnonzero(np.diff(stratum_of[order])) + 1):
        size = counts[members].sum()
        free = members[counts[members] <= largest]
        keep = 1 if len(free) == len(members) else 0  # groups left to train on
        for later, (name, fraction) in zip(reversed(range(len(fractions))), fractions.items(), strict=True):
            share = size * fraction + carried[name]
            spare = len(free) - keep - (0 if stratified else later)
            num_taken = min(max(num_groups(counts[free], share), 0 if stratified else 1), max(spare, 0))
            parts[free[:num_taken]] = PARTS.index(name)
            carried[name] = float(np.clip(share - counts[free[:num_taken]].sum(), -1, 1))
            free = free[num_taken:]
    return parts


def num_groups(counts: np.ndarray, share: float) -> int:
    """Return how many of the first groups come nearest to a share of the examples; on a tie, the fewer."""
    edges = np.concatenate([[0], np.cumsum(counts)])
    return int(np.argmin(np.abs(edges - share)))


def group_strata(group_of: np.ndarray, strata: Iterable[str]) -> np.ndarray:
    """Return the most frequent stratum of every group; on a tie, the first in the alphabet."""
    first_numbers: dict[str, int] = {}
    numbers = np.fromiter((first_numbers.setdefault(str(name), len(first_numbers)) for name in strata), np.int64)
    code = {name: number for number, name in enumerate(sorted(first_numbers))}
    stratum_of = np.array([code[name] for name in first_numbers], np.int64)[numbers]
    assert len(stratum_of) == len(group_of), "one stratum for each example"
    pairs, counts = np.unique(group_of * len(code) + stratum_of, return_counts=True)
    groups, numbers = np.divmod(pairs, len(code))
    order = np.lexsort((numbers, -counts, groups))
    _, first = np.unique(groups[order], return_index=True)
    return numbers[order][first]


def hash_keys(keys: Iterable[str], seed: int = 0) -> np.ndarray:
    """Return a 64-bit number for each key, the same on every machine. Any run of white space counts as one space."""
    start = blake2b(digest_size=8, key=blake2b(str(seed).encode(), digest_size=32).digest())
    digests = bytearray()
    for key in keys:
        digest = start.copy()
        digest.update(" ".join(key.split()).encode("utf-8", "surrogatepass"))
        digests += digest.digest()
    return np.frombuffer(bytes(digests), dtype="<u8")


def key_of(example: Example) -> str:
    return example.key


def too_few(num_keys: int, num_examples: int, fractions: dict[str, float], stratified: bool = False) -> UserError:
    parts = " and ".join(f"a {name} part ({name}_fraction={fractions[name]})" for name in reversed(fractions))
    counted = (
        f"{num_examples:,} example{'' if num_examples == 1 else 's'} with {num_keys:,} different"
        f" text{'' if num_keys == 1 else 's'}"
    )
    reason = ", where no label has enough to share," if stratified else ""
    return UserError(
        f"{counted}{reason} cannot give {parts} and something to train on; give more examples, or each part as a file"
    )


class Overlap(NamedTuple):
    """How many examples of a held-out part have a key that is also in the training part."""

    part: str
    num_shared: int
    num_examples: int
    first: str  # its id

    def __str__(self) -> str:
        share = self.num_shared / self.num_examples
        shared = f"{self.num_shared:,} of {self.num_examples:,} {self.part} examples ({share:.1%})"
        return f"{shared} have a text that the training part has too (first: {self.first})"


def find_overlaps(parts: Mapping[str, Sequence[E]], key: Key | None = None) -> list[Overlap]:
    """Find the examples that `valid` and `test` share with `train`."""
    key = key_of if key is None else key
    seen = np.sort(hash_keys(map(key, parts["train"])))
    overlaps = []
    for name in PARTS[1:]:
        part = parts.get(name, ())
        hashes = hash_keys(map(key, part))
        places = np.searchsorted(seen, hashes)
        inside = places < len(seen)
        shared = np.flatnonzero(inside)[seen[places[inside]] == hashes[inside]]
        if len(shared):
            overlaps.append(Overlap(name, len(shared), len(part), part[int(shared[0])].id))
    return overlaps
