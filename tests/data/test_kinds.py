"""Examples as a config names them, from files of every kind, synthetic ones and dialogues, and the part that each is
in."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.data.examples import Pair
from clew.data.kinds import labelled, labelled_graphs, pairs, questions
from clew.data.kinds.labelled import LabelledData
from clew.data.kinds.pairs import PairsData
from clew.data.notes import Notes

PAIRS = [("a b", "b a"), ("c", "c"), ("d e f", "f e d"), ("ü ß", "ß ü")]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(notes: Notes | None = None, **data: Any) -> dict[str, Any]:
    return pairs.PAIRS.read(PairsData(**data), 1, notes)


def pairs_of(parts: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((pair.source, pair.target) for part in parts.values() for pair in part)


def write(name: str, text: str) -> str:
    Path(name).write_bytes(text.encode())
    return name


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "BOM"])
def test_parallel_files_are_read_with_any_line_ends(end: str, mark: str) -> None:
    source = write("train.de", mark + "".join(source + end for source, _ in PAIRS))
    target = write("train.en", "".join(target + end for _, target in PAIRS))
    assert pairs_of(read(train=[source, target])) == sorted(PAIRS)
    assert pairs_of(read(train="train", source="de", target="en")) == sorted(PAIRS)


def test_tables_give_the_named_columns() -> None:
    rows = [{"id": str(number), "out": target, "in": source} for number, (source, target) in enumerate(PAIRS)]
    write("pairs.tsv", "id\tout\tin\n" + "".join("\t".join(row.values()) + "\n" for row in rows))
    write("pairs.csv", "id,out,in\n" + "".join(",".join(f'"{value}"' for value in row.values()) + "\n" for row in rows))
    write("pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    for name in ("pairs.tsv", "pairs.csv", "pairs.jsonl"):
        assert pairs_of(read(train=name, source="in", target="out")) == sorted(PAIRS), name
    write("plain.tsv", "".join(f"{source}\t{target}\n" for source, target in PAIRS))
    assert pairs_of(read(train="plain.tsv")) == sorted(PAIRS)
    assert pairs_of(read(train="plain.tsv", source=2, target=1)) == sorted((target, source) for source, target in PAIRS)


def test_one_file_is_split_by_seed_with_duplicates_together() -> None:
    write("pairs.tsv", "".join(f"text {n % 40}\tanswer {n}\n" for n in range(120)))
    data = {"train": "pairs.tsv", "valid_fraction": 0.2, "test_fraction": 0.1}
    parts = read(**data)
    assert {name: len(part) for name, part in parts.items()} == {"train": 84, "valid": 24, "test": 12}
    sides = [{pair.source for pair in part} for part in parts.values()]
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    assert parts == read(**data)
    assert parts != pairs.PAIRS.read(PairsData(**data), 2)


def test_given_parts_are_unchanged() -> None:
    for name in ("train", "valid", "test"):
        write(f"{name}.tsv", "".join(f"{source}\t{name}\n" for source, _ in PAIRS))
    parts = read(train="train.tsv", valid="valid.tsv", test="test.tsv")
    assert [{pair.target for pair in part} for part in parts.values()] == [{"train"}, {"valid"}, {"test"}]
    assert parts["valid"][1] == Pair("c", "valid", "valid.tsv:2")


def test_faulty_records_are_skipped_on_request() -> None:
    write("train.de", "a\n\nc\nd\n\n")
    write("train.en", "A\nB\n\nD\n\n")
    with pytest.raises(
        UserError,
        match=r"train.de:2: this line is empty, and line 2 of train.en is not; fix it, or skip such records",
    ):
        read(train=["train.de", "train.en"])
    notes = Notes(faults="skip")
    parts = read(notes, train=["train.de", "train.en"], faults="skip")
    assert pairs_of(parts) == [("a", "A"), ("d", "D")]
    assert notes.report() == [
        "skipped 2 x line empty on one side (first: train.de:2)",
        "skipped 1 x line empty on both sides (first: train.de:5)",
    ]


def test_files_of_unequal_length_are_rejected_even_with_skipped_faults() -> None:
    write("train.de", "a\nb\nc\n")
    write("train.en", "A\nB\n")
    for faults in ("refuse", "skip"):
        with pytest.raises(UserError, match=r"train.de has 3 lines and train.en 2: line 3 of train.de has no partner"):
            read(train=["train.de", "train.en"], faults=faults)


def test_synthetic_examples_are_determined_by_the_seed() -> None:
    data: dict[str, Any] = {"corpus": "reverse", "size": 50, "shortest": 2, "longest": 4}
    parts = read(**data)
    assert sum(map(len, parts.values())) == 50
    for pair in (pair for part in parts.values() for pair in part):
        assert pair.target.split() == pair.source.split()[::-1] and 2 <= len(pair.source.split()) <= 4
    assert parts == read(**data) and parts != pairs.PAIRS.read(PairsData(**data), 2)


def test_a_line_is_in_the_same_part_in_every_translation_direction() -> None:
    for language in ("de", "en", "fr"):
        write(f"train.{language}", "".join(f"{language} {number}\n" for number in range(20)))
    parts = read(train="train", directions=["de-en", "en-fr", "fr-de"], valid_fraction=0.25)
    assert {part: len(pairs) for part, pairs in parts.items()} == {"train": 45, "valid": 15}
    numbers = [{pair.source.split()[1] for pair in part} for part in parts.values()]
    assert not numbers[0] & numbers[1]
    assert {(pair.source[:2], pair.target[:2], pair.into) for pair in parts["train"]} == {
        ("de", "en", "en"),
        ("en", "fr", "fr"),
        ("fr", "de", "de"),
    }


DIALOGUES = "hello\nhi\nhow are you ?\nfine\n\n\nbye\ngood bye\n"


def test_a_reply_follows_the_previous_turns() -> None:
    write("talk.txt", DIALOGUES)
    write("other.txt", "x\ny\n")
    parts = read(train="talk.txt", valid="other.txt", turns=2)
    assert parts["train"] == [
        Pair("hello", "hi", "talk.txt:2"),
        Pair("hello | hi", "how are you ?", "talk.txt:3"),
        Pair("hi | how are you ?", "fine", "talk.txt:4"),
        Pair("bye", "good bye", "talk.txt:8"),
    ]
    assert [pair.source for pair in read(train="talk.txt", valid="other.txt", turns=1)["train"]] == [
        "hello",
        "hi",
        "how are you ?",
        "bye",
    ]


def test_an_evaluation_file_of_dialogues_is_read_completely() -> None:
    write("talk.txt", DIALOGUES)
    examples = list(pairs.PAIRS.read_files(["talk.txt"], PairsData(train="other.txt", turns=2), Notes()))
    assert [pair.target for pair in examples] == ["hi", "how are you ?", "fine", "good bye"]


def test_a_dialogue_stays_in_one_part() -> None:
    write("talk.txt", "".join(f"question {n}\nanswer {n}\nthanks {n}\nwelcome {n}\n\n" for n in range(20)))
    parts = read(train="talk.txt", turns=1, valid_fraction=0.25)
    numbers = [{pair.target.split()[1] for pair in part} for part in parts.values()]
    assert (len(parts["train"]), len(parts["valid"])) == (45, 15) and not numbers[0] & numbers[1]


def test_a_dialogue_of_one_turn_is_a_fault() -> None:
    write("talk.txt", "\nhello\nhi\n\nalone\n\nbye\ngood bye\n")
    with pytest.raises(
        UserError,
        match="talk.txt:5: the dialogue has one turn, so there is no reply; fix it",
    ):
        read(train="talk.txt", turns=1)
    parts = read(train="talk.txt", turns=1, faults="skip")
    assert pairs_of(parts) == [("bye", "good bye"), ("hello", "hi")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {},
            "there is no training data; name your pairs with data.train, e.g. `clew train translate"
            " data.train=pairs.tsv` or data.train=",
        ),
        (
            {"turns": 1},
            "there is no training data; name your dialogues with data.train, one turn on each line, e.g. `clew train"
            " dialogue data.train=talk.txt`",
        ),
        ({"corpus": "revers"}, "unknown corpus 'revers'; did you mean 'reverse'?"),
        ({"train": "pairs.tsv", "corpus": "copy"}, "data.corpus and data.train exclude each other"),
        (
            {"corpus": "copy", "turns": 2},
            "data.turns is for files of dialogues, but data.corpus=copy is a corpus; leave one of them out",
        ),
        (
            {"train": ["a", "b"], "directions": ["de-en"]},
            "with data.directions, data.train is what the names of its files begin with",
        ),
        ({"train": "none", "directions": ["de-en"]}, "none.de"),
        (
            {"corpus": "tatoeba-sample", "directions": ["de-en"], "target": "en"},
            "data.directions takes the place of data.source and data.target; leave these out",
        ),
        (
            {"corpus": "tatoeba-sample", "directions": ["de"]},
            "data.directions: 'de' is not two languages with a hyphen between",
        ),
        ({"corpus": "tatoeba-sample", "directions": []}, "data.directions is empty; name at least one, such as "),
        (
            {"corpus": "tatoeba-sample", "source": 1, "target": "en"},
            r"data.source is a number \(1\), but a corpus needs a language; name one",
        ),
        ({"train": "one.tsv"}, "1 example with 1 different text cannot give a valid part"),
        ({"train": ["a", "b", "c"]}, "pairs are in one file, or in two parallel files, not in 3"),
        ({"train": "none.tsv"}, "none.tsv: the file is empty"),
        ({"train": "lines.txt"}, r"lines.txt: this is .* \(lines\), which holds no pairs"),
    ],
)
def test_unreadable_data_are_rejected(data: dict[str, Any], message: str) -> None:
    write("one.tsv", "a\tb\n")
    write("none.tsv", "")
    write("lines.txt", "just a line\nand another\n")
    write("pairs.tsv", "a\tb\nc\td\n")
    with pytest.raises(UserError, match=message):
        read(**data)


def test_the_corpus_of_another_kind_of_data_is_unknown() -> None:
    with pytest.raises(UserError, match="unknown corpus of questions 'squad'; known: facts"):
        questions.QUESTIONS.read(questions.QuestionsData(corpus="squad"), 1)
    with pytest.raises(UserError, match="unknown corpus of graphs with labels 'scenes'; did you mean"):
        labelled_graphs.LABELLED_GRAPHS.read(labelled_graphs.LabelledGraphsData(corpus="scenes"), 1)


def test_a_part_with_all_labels_left_out_is_rejected() -> None:
    write("train.csv", "text,label\na,good\nb,bad\n")
    write("valid.csv", "text,label\na,none\n")
    data = LabelledData(train="train.csv", valid="valid.csv", label_map={"none": None})
    sentence = "the valid part has no examples; skipped 1 x labels that data.label_map leaves out"
    with pytest.raises(UserError, match=sentence):
        labelled.LABELLED.read(data, 1)


def test_a_file_is_stratified_by_labels_that_repeat() -> None:
    write(
        "classes.csv", "text,label\n" + "".join(f"text {n},{'rare' if n % 10 == 0 else 'common'}\n" for n in range(40))
    )
    parts = labelled.LABELLED.read(LabelledData(train="classes.csv", valid_fraction=0.25), 1)
    assert [example.label for example in parts["valid"]].count("rare") == 1
    write("numbers.csv", "text,label\n" + "".join(f"text {n},{n / 7:.3f}\n" for n in range(40)))
    parts = labelled.LABELLED.read(LabelledData(train="numbers.csv", valid_fraction=0.25), 1)
    assert {part: len(examples) for part, examples in parts.items()} == {"train": 30, "valid": 10}
