from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.data.corpora import read_corpus

PAIR = "one {n} text\tanother text {n}"
FILES = {
    "glue-sst2": {
        "SST-2/train.tsv": ("sentence\tlabel", "a film {n} \t1"),
        "SST-2/dev.tsv": ("sentence\tlabel", "it 's \"{n}\t0"),
    },
    "glue-cola": {"CoLA/train.tsv": ("", "gj04\t1\t\tHe {n} ate."), "CoLA/dev.tsv": ("", "gj04\t0\t*\tAte {n} he.")},
    "glue-mrpc": {
        f"MRPC/{part}.tsv": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\t"He said {n}\tShe said')
        for part in ("train", "dev")
    },
    "glue-rte": {
        f"RTE/{part}.tsv": ("index\tsentence1\tsentence2\tlabel", f"{{n}}\t{PAIR}\tentailment")
        for part in ("train", "dev")
    },
    "glue-stsb": {
        f"STS-B/{part}.tsv": (
            "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
            f"{{n}}\tg\tf\t2012\t1\tnone\tnone\t{PAIR}\t2.5",
        )
        for part in ("train", "dev")
    },
    "glue-mnli": {
        f"MNLI/{part}.tsv": ("index\tsentence1\tsentence2\tlabel1\tgold_label", f"{{n}}\t{PAIR}\tneutral\tneutral")
        for part in ("train", "dev_matched")
    },
    "glue-qqp": {
        f"QQP/{part}.tsv": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", f"{{n}}\t1\t2\t{PAIR}\t1")
        for part in ("train", "dev")
    },
    "glue-qnli": {
        f"QNLI/{part}.tsv": ("index\tquestion\tsentence\tlabel", f"{{n}}\t{PAIR}\tentailment")
        for part in ("train", "dev")
    },
}


def write(folder: Path, files: dict[str, tuple[str, str]]) -> None:
    for name, (header, line) in files.items():
        path = folder / "glue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            *([header] if header else []),
            *(line.format(n=f"{path.stem}{number}") for number in range(20 if "train" in name else 3)),
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))


@pytest.mark.parametrize("name", FILES)
def test_the_published_dev_set_is_the_test_part_and_a_tenth_of_train_is_held_out(name: str, tmp_path: Path) -> None:
    write(tmp_path, FILES[name])
    parts = read_corpus(name, seed=3)
    assert {part: len(examples) for part, examples in parts.items()} == {"train": 18, "valid": 2, "test": 3}
    assert all("train" in example.text for part in ("train", "valid") for example in parts[part])
    assert all("dev" in example.text for example in parts["test"])
    assert (parts["train"][0].second is None) == (name in ("glue-sst2", "glue-cola"))
    assert [example.text for example in parts["valid"]] != [
        example.text for example in read_corpus(name, seed=4)["valid"]
    ]


def test_quotes_are_characters_and_labels_are_unchanged(tmp_path: Path) -> None:
    write(tmp_path, {**FILES["glue-mrpc"], **FILES["glue-cola"], **FILES["glue-sst2"]})
    assert read_corpus("glue-mrpc")["test"][0][:3] == ('"He said dev0', ("1",), "She said")
    assert read_corpus("glue-cola")["test"][1][:2] == ("Ate dev1 he.", ("0",))
    assert read_corpus("glue-sst2")["test"][2][:2] == ("it 's \"dev2", ("0",))


def test_colas_training_part_may_be_split_over_two_files(tmp_path: Path) -> None:
    write(tmp_path, {**FILES["glue-cola"], "CoLA/val.tsv": ("", "gj04\t1\t\tHe {n} slept.")})
    parts = read_corpus("glue-cola")
    assert len(parts["train"]) + len(parts["valid"]) == 23 and len(parts["test"]) == 3


def test_sts_b_is_read_without_a_header_and_with_lines_of_two_lengths(tmp_path: Path) -> None:
    line = 'main\tfile\t2012\t0001\t3.800\tA "man {n} plays.\tA man.'
    write(tmp_path, {"STS-B/sts-train.csv": ("", line), "STS-B/sts-dev.csv": ("", f"{line}\tfrom here\tfrom there")})
    parts = read_corpus("glue-stsb")
    assert parts["test"][0][:3] == ('A "man sts-dev0 plays.', ("3.800",), "A man.")
    assert len(parts["train"]) == 18
    (tmp_path / "glue/STS-B/sts-dev.csv").write_text("only\tthree\tcolumns\n", encoding="utf-8")
    with pytest.raises(UserError, match="sts-dev.csv:1: expected 7 tab-separated columns, found 3"):
        read_corpus("glue-stsb")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="the corpus glue-rte does not ship with clew; put glue/RTE/train.tsv, glue/RTE/dev.tsv below CLEW_DATA",
    ):
        read_corpus("glue-rte")
