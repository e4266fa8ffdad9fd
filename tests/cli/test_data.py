import gzip
import json
import shlex
from pathlib import Path

import pytest
import torch
from PIL import Image

from clew.recipes.resolving import config_of
from tests.cli.conftest import Clew
from tests.tasks.test_transcription import write_wav

TICKETS = (
    "body,queue\n" + "".join(f"the {n}th bill is wrong,{'money' if n % 2 else 'other'}\n" for n in range(8)) + "x\n"
)


def test_the_description_of_a_file_ends_with_the_command(clew: Clew) -> None:
    Path("tickets.csv").write_text(TICKETS, encoding="utf-8")
    result = clew("data", "tickets.csv")
    lines = result.out.splitlines()
    assert result.status == 0 and result.err == ""
    assert lines[0] == "tickets.csv: comma-separated values, 8 records"
    assert "  labels: money 4 (50.0%), other 4 (50.0%)" in lines
    assert "bad: tickets.csv:10: expected 2 columns between commas, found 1" in lines
    assert lines[-1] == "  clew train classify data.train=tickets.csv data.text=body data.label=queue data.faults=skip"
    command = shlex.split(lines[-1])
    assert config_of(command[2], command[3:]).data.label == "queue"


def test_json_has_the_same_facts(clew: Clew) -> None:
    Path("tickets.csv.gz").write_bytes(gzip.compress(TICKETS.encode()))
    facts = json.loads(clew("data", "tickets.csv.gz", "--json").out)
    assert (facts["num_records"], facts["num_faults"], facts["columns"][1]["labels"]) == (
        8,
        1,
        {"money": 4, "other": 4},
    )
    assert facts["command"].startswith("clew train classify data.train=tickets.csv.gz ")


def test_a_folder_is_described_as_training_reads_it(clew: Clew) -> None:
    Path("corpus/inner").mkdir(parents=True)
    Path("corpus/a.txt").write_text("it rains\n\nand rains again\n", encoding="utf-8")
    Path("corpus/inner/b.txt.gz").write_bytes(gzip.compress(b"the sun shines\n"))
    for name in ("corpus/notes.md", "corpus/.hidden.txt", "corpus/empty.txt"):
        Path(name).write_text("" if "empty" in name else "not read\n", encoding="utf-8")
    result = clew("data", "corpus")
    lines = result.out.splitlines()
    assert result.status == 0 and lines[0] == "corpus: one text per line, 2 files, 3 records"
    assert "example, corpus/inner/b.txt.gz:1" in lines and "skipped: 1 x empty line" in lines
    assert lines[-3:] == [
        "  clew train text-lstm data.train=corpus",
        "or, to learn to fill in words, as BERT does, with:",
        "  clew train text-bert data.train=corpus",
    ]
    Path("corpus/c.jsonl").write_text('{"text": "snow", "n": 1}\n{"body": "hail"}\n', encoding="utf-8")
    mixed = json.loads(clew("data", "corpus", "--json").out)
    assert (mixed["num_files"], mixed["num_records"], mixed["num_faults"]) == (3, 4, 1)
    Path("objects").mkdir()
    Path("objects/a.jsonl").write_text('{"body": "snow on the hill"}\n{"body": "and some hail"}\n', encoding="utf-8")
    assert (
        json.loads(clew("data", "objects", "--json").out)["command"]
        == "clew train text-gpt data.train=objects data.text=body"
    )
    assert (
        "corpus is a folder: its .txt files are read as text"
        " and its .jsonl files as JSON lines; give a format for a single file only"
        in clew("data", "corpus", "--format", "csv").err
    )
    Path("tables").mkdir()
    Path("tables/a.csv").write_text(TICKETS, encoding="utf-8")
    assert clew("data", "tables").err.startswith("clew: tables: this is a folder; name a file in it: ")


def test_two_files_are_parallel_text(clew: Clew) -> None:
    for name, text in {"a.de": "eine Katze\n", "a.en": "a cat\n"}.items():
        Path(name).write_text(text, encoding="utf-8")
    assert clew("data", "a.de", "a.en").out.splitlines()[-1] == "  clew train translate 'data.train=[a.de,a.en]'"


def test_the_command_repeats_the_options_and_quotes_names(clew: Clew) -> None:
    Path("a, b.txt").write_text("text\tlabel\nso so\tx\noh no\ty\nhm hm\tx\n", encoding="utf-8")
    command = shlex.split(clew("data", "a, b.txt", "--format", "tsv", "--no-header").out.splitlines()[-1])
    assert command[2:4] == ["classify", 'data.train="a, b.txt"']
    assert command[4:] == ["data.text=1", "data.label=2", "data.format=tsv", "data.header=false"]


def test_the_command_for_a_column_of_trees_is_valid(clew: Clew) -> None:
    Path("trees.csv").write_text(
        "kind,tree\ndecl,(S (NN It) (VP rains))\nfrag,(NP (NN Rain))\ndecl,(S (NP (NN a)))\n", encoding="utf-8"
    )
    command = shlex.split(clew("data", "trees.csv").out.splitlines()[-1])
    assert command[2:] == [
        "classify-trees",
        "data.train=trees.csv",
        "data.text=tree",
        "data.label=kind",
        "task.phrases=true",
    ]
    assert config_of(command[2], command[3:]).task.model_dump()["phrases"] is True


def test_a_column_with_one_value_is_not_a_label(clew: Clew) -> None:
    Path("a.csv").write_text(
        "id,body,queue\na7,it broke,money\nb8,so late again,money\nc9,no bill,money\n", encoding="utf-8"
    )
    lines = clew("data", "a.csv").out.splitlines()
    assert lines[-1] == "column queue has only one value, 'money'; a label needs at least two"
    assert not any(line.startswith("words of the second text") for line in lines)


def test_two_text_columns_are_compared_only_if_both_are_used(clew: Clew) -> None:
    rows = "".join(
        f"{n} May 2020,the thing {n} broke,{'a' if n % 2 else 'b'},{'mail' if n % 3 else 'phone'}\n" for n in range(9)
    )
    Path("a.csv").write_text("date,body,queue,channel\n" + rows, encoding="utf-8")
    lines = clew("data", "a.csv").out.splitlines()
    assert not any(line.startswith("words of the second text") for line in lines)
    assert lines[-3] == "other columns may be the label: channel"


def test_numeric_tags_are_reported_with_a_remedy(clew: Clew) -> None:
    rows = [{"id": n, "tokens": ["Ada", f"ran{n}"], "ner_tags": [1, n % 2]} for n in range(6)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    remedy = (
        'is a list of numbers; write the names that they stand for, such as ["B-PER", "O"] for [1, 0], or quote the'
        " numbers"
    )
    assert clew("data", "a.jsonl").out.splitlines()[-1] == f"tags must be lists of strings, but ner_tags {remedy}"
    refused = clew("train", "tag", "data.train=a.jsonl", "data.words=tokens", "data.tags=ner_tags")
    assert (
        refused.status == 2 and f"data.tags takes a list of strings, found {remedy.removeprefix('is ')}" in refused.err
    )


def test_an_unusable_file_gets_no_command(clew: Clew) -> None:
    Path("a.csv").write_text('text,label\na b,c\n"d,e\n', encoding="utf-8")
    assert clew("data", "a.csv").out.endswith("correct the error above, which stops reading, and then train on it\n")
    Path("a.jsonl").write_text('{"n": 1}\n', encoding="utf-8")
    assert clew("data", "a.jsonl").out.splitlines()[-1].startswith("no task fits these data")


def test_json_lines_with_only_text_are_documents(clew: Clew) -> None:
    rows = [{"id": n, "body": f"there were {n} of them and {n * n} more"} for n in range(60)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert clew("data", "a.jsonl").out.endswith("  clew train text-gpt data.train=a.jsonl data.text=body\n")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (["empty.csv"], "empty.csv: the file is empty; give one with text in it"),
        (["binary.bin"], "binary.bin: this is a picture, not text; "),
        (["none.csv"], "no such file: none.csv; "),
        (["folder"], "folder: this is a folder; name a file in it: the folder folder is empty"),
        (["a", "b", "c"], "give one file, or two of parallel text, not 3"),
        (
            ["a", "b", "--format", "csv"],
            "two files are parallel text, line by line; --format and --header are for one file",
        ),
        (["a", "b", "--delimiter", ";"], "two files are parallel text, line by line; --delimiter is for one file"),
        (["empty.csv", "--format", "cvs"], "unknown data.format 'cvs'; did you mean 'csv'?"),
        (["train", "--format", "parallel"], "train: parallel text is two files; give both"),
    ],
)
def test_unreadable_files_are_reported_in_one_line(clew: Clew, files: list[str], sentence: str) -> None:
    Path("empty.csv").touch()
    Path("binary.bin").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    Path("folder").mkdir()
    result = clew("data", *files)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"clew: {sentence}")


def test_sounds_in_a_table_are_measured_by_their_headers(clew: Clew, tmp_path: Path) -> None:
    for number, seconds in enumerate((1, 2)):
        write_wav(tmp_path / f"{number}.wav", torch.zeros(8000 * seconds))
    (tmp_path / "broken.wav").write_text("no sound", encoding="utf-8")
    (tmp_path / "said.csv").write_text(
        "file,said\n0.wav,one word\n1.wav,two more words\nbroken.wav,none at all\n", encoding="utf-8"
    )
    out = clew("data", str(tmp_path / "said.csv")).out
    assert "3 sound files, 3.0 seconds: mean 1.50 s, longest 2.00 s; rates: 8,000 Hz (2)\n" in out
    assert f"cannot be read: {tmp_path}/broken.wav: this is not a sound file" in out
    assert out.endswith(f"clew train transcribe data.train={tmp_path}/said.csv data.sound=file data.text=said\n")


def test_pictures_in_a_table_of_captions_are_measured(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name, size in (("a", (4, 6)), ("b", (8, 2))):
        Image.new("RGB", size).save(tmp_path / "images" / f"{name}.png")
    rows = '{"image": "a.png", "captions": ["a dog runs", "it runs"]}\n{"image": "b.png", "captions": ["a cat"]}\n'
    (tmp_path / "captions.jsonl").write_text(rows, encoding="utf-8")
    facts = json.loads(clew("data", str(tmp_path / "captions.jsonl"), "--json").out)
    assert facts["files"]["num_files"] == 2 and {"height": 6, "width": 4, "count": 1} in facts["files"]["sizes"]
    assert (
        facts["command"] == f"clew train caption data.train={tmp_path}/captions.jsonl data.pictures={tmp_path}/images"
    )


def test_sounds_in_one_folder_per_class_are_counted_by_class(clew: Clew, tmp_path: Path) -> None:
    for name in ("dog/1.wav", "dog/2.wav", "cat/1.wav"):
        (tmp_path / "sounds" / name).parent.mkdir(parents=True, exist_ok=True)
        write_wav(tmp_path / "sounds" / name, torch.zeros(4000))
    assert (
        clew("data", str(tmp_path / "sounds")).out
        == f"{tmp_path}/sounds: one folder per class, 2 classes\n3 sound files, 1.5 seconds: mean 0.50 s, longest"
        " 0.50 s; rates: 8,000 Hz (3)\nclasses: dog 2, cat 1\ntrain on it with:\n  clew train classify-sounds"
        f" data.train={tmp_path}/sounds\n"
    )


def test_a_file_of_vectors_names_the_verbs_that_read_it(clew: Clew) -> None:
    Path("vectors.txt").write_text("".join(f"w{n} {' '.join(['0.5'] * 10)}\n" for n in range(9)), encoding="utf-8")
    result = clew("data", "vectors.txt")
    assert (
        result.out
        == "vectors.txt: word vectors of 10 numbers\nlook at them with:\n  clew vectors neighbours vectors.txt WORD\n"
        "or initialise the word embeddings of a model with them:\n"
        "  clew train tag data.train=FILE embedding.vectors=vectors.txt\n"
    )
    facts = json.loads(clew("data", "vectors.txt", "--json").out)
    assert (facts["format"], facts["width"], facts["command"]) == (
        "word vectors",
        10,
        "clew vectors neighbours vectors.txt WORD",
    )


def test_encoding_and_delimiter_are_repeated_in_the_command(clew: Clew) -> None:
    rows = "".join(f"über {n}~{'ab'[n % 2]}\n" for n in range(20))
    Path("a.csv").write_bytes(("text~label\n" + rows).encode("cp437"))
    result = clew("data", "a.csv", "--encoding", "cp437", "--delimiter", "~")
    assert "encoding: cp437, as it was given" in result.out and "über 0" in result.out
    assert result.out.rstrip().endswith(
        "clew train classify data.train=a.csv data.text=text data.label=label data.encoding=cp437 'data.delimiter=~'"
    )
