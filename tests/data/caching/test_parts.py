import errno
import importlib
import json
import multiprocessing
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.core.files import json_hash
from clew.data.caching import parts as parts_of_data
from clew.data.caching import stores
from clew.data.caching.fingerprints import code_digest, data_key
from clew.data.caching.parts import Part, examples_at, gather, keep_parts, load_parts, remembered
from clew.data.example_splits import split_examples
from clew.data.examples import Pair
from clew.data.kinds.pairs import PAIRS, PairsData
from clew.data.notes import Notes

PAIRS_OF_TEXT = [Pair(f"source {number}", f"target {'x' * (number % 7)}", f"file:{number}") for number in range(300)]


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Store even small parts on disk, in several blocks."""
    monkeypatch.setattr(parts_of_data, "LARGE", 2**11)
    monkeypatch.setattr(parts_of_data, "MEASURED", 1)
    monkeypatch.setattr(parts_of_data, "BLOCK", 32)
    monkeypatch.setattr(stores, "BLOCK", 32)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "source\ttarget\n" + "".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS_OF_TEXT) + "\n",
        encoding="utf-8",
    )
    return path


def partial_files(cache: Path) -> list[str]:
    return [path.name for path in cache.glob("*.partial*")]


def test_many_examples_are_stored_on_disk_and_few_in_a_list(tmp_path):
    assert gather(iter(PAIRS_OF_TEXT[:5])) == PAIRS_OF_TEXT[:5]
    part = gather(iter(PAIRS_OF_TEXT))
    assert isinstance(part, Part)
    assert list(part) == PAIRS_OF_TEXT
    assert len(part) == 300
    assert (part[7], part[-1], part[np.int64(3)]) == (PAIRS_OF_TEXT[7], PAIRS_OF_TEXT[-1], PAIRS_OF_TEXT[3])
    assert part[10:100:7] == PAIRS_OF_TEXT[10:100:7]
    with pytest.raises(IndexError):
        part[300]


def test_the_folder_of_a_temporary_part_is_deleted_with_it(tmp_path):
    part = gather(iter(PAIRS_OF_TEXT))
    assert partial_files(tmp_path / "cache")
    del part
    assert not partial_files(tmp_path / "cache")


def test_one_unpackable_example_keeps_all_examples_in_a_list(tmp_path):
    odd = Pair("x", "y", id=object())
    assert gather(iter([*PAIRS_OF_TEXT, odd, *PAIRS_OF_TEXT])) == [*PAIRS_OF_TEXT, odd, *PAIRS_OF_TEXT]
    assert not partial_files(tmp_path / "cache")


def test_a_selection_from_a_part_equals_that_from_a_list():
    part, rows = gather(iter(PAIRS_OF_TEXT)), np.array([3, 299, 5])
    some = examples_at(part, rows)
    assert list(some) == examples_at(PAIRS_OF_TEXT, rows)
    assert list(examples_at(some, np.array([2, 0]))) == [PAIRS_OF_TEXT[5], PAIRS_OF_TEXT[3]]


def test_a_part_on_disk_is_split_like_a_list():
    labels = [f"label {number % 3}" for number in range(300)]
    by_text = {pair.source: label for pair, label in zip(PAIRS_OF_TEXT, labels, strict=True)}
    options = {"seed": 3, "valid_fraction": 0.2, "test_fraction": 0.1, "stratify": lambda pair: by_text[pair.source]}
    in_memory, on_disk = (
        split_examples(PAIRS_OF_TEXT, **options),
        split_examples(gather(iter(PAIRS_OF_TEXT)), **options),
    )
    assert {name: list(part) for name, part in on_disk.items()} == in_memory


def test_cached_parts_are_loaded_with_their_notes_of_skipped_records(table, monkeypatch):
    first, second = Notes(), Notes()
    data = PairsData(train=str(table))
    parts = PAIRS.read(data, 1, first)
    monkeypatch.setattr("clew.data.kinds.pairs.read_pairs", lambda *args, **options: pytest.fail("read again"))
    cached_parts = PAIRS.read(data, 1, second)
    assert {name: list(part) for name, part in cached_parts.items()} == {
        name: list(part) for name, part in parts.items()
    }
    assert all(isinstance(part, Part) for part in cached_parts.values())
    assert first.report() == second.report() != []


def test_another_seed_setting_or_file_content_is_read_again(table):
    def key(**changed):
        seed = changed.pop("seed", 1)
        return PAIRS.read(PairsData(train=str(table), **changed), seed)["train"].key

    keys = {key(), key(seed=2), key(valid_fraction=0.2), key(limit=200)}
    with table.open("a", encoding="utf-8") as file:
        file.write("one more\tpair\n")
    assert len(keys | {key()}) == 5
    assert key() == key()


def test_small_data_are_not_cached(table, tmp_path):
    table.write_text("source\ttarget\na\tb\nc\td\ne\tf\n", encoding="utf-8")
    assert isinstance(PAIRS.read(PairsData(train=str(table)), 1)["train"], list)
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.parametrize("name", ["0/rows", "0/starts", "train.numbers", "index.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damaged_caches_are_detected_and_read_again(table, tmp_path, name, damage):
    data = PairsData(train=str(table))
    expected = list(PAIRS.read(data, 1)["train"])
    (place,) = (path.parent for path in (tmp_path / "cache").glob("*/index.json"))
    path = place / name
    content = path.read_bytes()
    path.unlink()
    if damage != "remove":
        changed = bytes([*content[:20], content[20] ^ 1, *content[21:]]) if damage == "flip" else content[:-3]
        path.write_bytes(changed)
    assert load_parts(place) is None
    assert list(PAIRS.read(data, 1)["train"]) == expected
    assert load_parts(place) is not None
    assert not partial_files(tmp_path / "cache")


def test_interrupted_reading_leaves_no_files(tmp_path):
    def interrupted():
        yield from PAIRS_OF_TEXT
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(interrupted())
    assert not list((tmp_path / "cache").glob("*"))


def test_leftovers_of_killed_processes_are_removed_and_of_other_hosts_after_days(tmp_path):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        killed = pool.apply(stores.folder_aside, (tmp_path / "cache",))
    own = stores.folder_aside(tmp_path / "cache")
    recent, old = (own.with_name(f"1@elsewhere@{name}.partial-rows") for name in ("recent", "left"))
    recent.mkdir()
    old.mkdir()
    os.utime(old, (0, 0))
    stores.folder_aside(tmp_path / "cache")
    assert not killed.exists() and not old.exists()
    assert own.exists() and recent.exists()


def test_a_file_moved_to_another_part_changes_the_cache_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("train", "train", "valid")):
        rows = [f"source {number} {row}\ttarget\n" for row in range(40)]
        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / f"{number}.tsv").write_text("".join(rows), encoding="utf-8")
    before = data_key(PairsData(train="train", valid="valid"), 1)
    (tmp_path / "train" / "1.tsv").rename(tmp_path / "valid" / "1.tsv")
    assert before is not None and data_key(PairsData(train="train", valid="valid"), 1) != before


def test_the_code_digest_follows_partials_and_imports_of_user_code(tmp_path, monkeypatch):
    (tmp_path / "reading_of_mine.py").write_text(
        "import helping_mine\n\n\ndef read(path):\n    return helping_mine.rows\n", encoding="utf-8"
    )
    (tmp_path / "helping_mine.py").write_text("rows = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    read = importlib.import_module("reading_of_mine").read
    before = code_digest((partial(read),))
    assert before == code_digest((read,)) != code_digest(())
    (tmp_path / "helping_mine.py").write_text("rows = 2\n", encoding="utf-8")
    assert code_digest((partial(read),)) != before


def test_a_full_disk_is_reported_and_leaves_no_files(tmp_path, monkeypatch):
    def full(path, mode):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stores, "create_private", full)
    with pytest.raises(UserError) as caught:
        gather(iter(PAIRS_OF_TEXT))
    assert "the examples cannot be stored in" in str(caught.value)
    assert "No space left on device; free some space" in str(caught.value)
    assert not list((tmp_path / "cache").glob("*"))


def test_an_unwritable_cache_is_reported_with_a_remedy(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(
        UserError, match="cannot be stored in .*cache: .*; free some space, make the folder writable, or set the"
    ):
        gather(iter(PAIRS_OF_TEXT))


def read_at_once(table, barrier, counts):
    barrier.wait()
    counts.put([len(part) for part in PAIRS.read(PairsData(train=str(table)), 1).values()])


def test_two_processes_reading_at_once_store_one_copy(table, tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    processes = [context.Process(target=read_at_once, args=(table, barrier, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    counts = [queue.get(timeout=20) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert counts[0] == counts[1]
    assert len(list((tmp_path / "cache").glob("*/index.json"))) == 1
    assert not partial_files(tmp_path / "cache")


def test_results_over_all_examples_are_stored_beside_a_cached_part(table):
    def count(part):
        calls.append(1)
        return {"pairs": len(list(part))}

    calls: list[int] = []
    data = PairsData(train=str(table))
    for _ in range(2):
        part = PAIRS.read(data, 1)["train"]
        assert remembered(part, "count", lambda part=part: count(part)) == {"pairs": 270}
    assert len(calls) == 1
    (stored,) = (path for path in part.folder.glob("*.json") if path.name != "index.json")
    stored.write_text(stored.read_text().replace("270", "271"))
    assert remembered(part, "count", lambda: count(part)) == {"pairs": 270}
    assert remembered(PAIRS_OF_TEXT, "count", lambda: len(PAIRS_OF_TEXT)) == 300


def test_parts_of_an_unknown_class_are_not_loaded(tmp_path):
    place = tmp_path / "cache" / "key"
    assert keep_parts(place, {"train": gather(iter(PAIRS_OF_TEXT))})["train"].key == "key train"
    index = json.loads((place / "index.json").read_text())
    index.pop("sha256")
    index["stores"][0]["classes"] = ["clew.data.examples:Gone"]
    (place / "index.json").write_text(json.dumps({**index, "sha256": json_hash(index)}))
    assert load_parts(place) is None
