import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Clew

NUMBER = 60


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two languages whose word vectors differ by a rotation; the second is padded with two zeros before it."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(NUMBER, 6))
    rotation = np.linalg.qr(generator.normal(size=(8, 8)))[0]
    rotated = np.pad(rows, ((0, 0), (0, 2))) @ rotation
    for name, vectors, word in (("en.txt", rows, "w"), ("xx.txt", rotated, "Y")):
        lines = (f"{word}{row} " + " ".join(f"{value:.6f}" for value in vector) for row, vector in enumerate(vectors))
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "train.tsv").write_text(
        "".join(f"w{row}\tY{row}\n" for row in range(30)) + "nowhere\tY1\n", encoding="utf-8"
    )
    (tmp_path / "test.txt").write_text(
        "".join(f"w{row} Y{row}\n" for row in range(30, 60)) + "gone Y1\n", encoding="utf-8"
    )
    return tmp_path


def test_a_rotated_language_is_translated_word_for_word(clew: Clew, files: Path):
    result = clew("lexicon", "en.txt", "xx.txt", "--train", "train.tsv", "--test", "test.txt", "--json")
    assert result.status == 0, result.err
    for line in map(json.loads, result.out.splitlines()):
        assert line["precision@1"] == 100 and line["words"] == 30 and line["words_in_all"] == 31
        assert line["precision@1_of_all"] == pytest.approx(100 * 30 / 31) and line["train"]["pairs"] == 30
    assert "cross-validation" in result.err and "30 of 31 pairs" in result.err


def test_words_are_translated_and_a_dictionary_is_written(clew: Clew, files: Path):
    arguments = ["lexicon", "en.txt", "xx.txt", "--train", "train.tsv", "--prepare", "unit", "--rounds", "1"]
    assert clew(*arguments, "w41", "W3").out.split()[:2] == ["w41", "Y41"]
    result = clew(*arguments, "--out", "dictionary.tsv", "--words", "40", "--n", "2", "--by", "nearest")
    lines = [line.split("\t") for line in (files / "dictionary.tsv").read_text(encoding="utf-8").splitlines()]
    assert (
        result.status == 0
        and len(lines) == 80
        and lines[0][:2] == ["w0", "Y0"]
        and float(lines[0][2]) == pytest.approx(1, abs=1e-3)
    )


def test_identical_words_serve_as_a_dictionary(clew: Clew, files: Path):
    lines = (files / "xx.txt").read_text(encoding="utf-8").splitlines(True)
    (files / "alike.txt").write_text(
        "".join(line.replace("Y", "w") if row < 20 else line for row, line in enumerate(lines))
    )
    result = clew("lexicon", "en.txt", "alike.txt", "w50", "--prepare", "centre", "--rounds", "0")
    assert result.out.split()[:2] == ["w50", "Y50"]


def test_two_runs_serve_as_two_languages(clew: Clew, files: Path, lstm: Path, gpt: Path):
    result = clew("lexicon", lstm, gpt, "a", "--prepare", "unit", "--rounds", "0")
    assert result.status == 0 and result.out.split()[0] == "a"


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (
            ["--train", "train.tsv"],
            "nothing to do; give words to translate, --test FILE to measure, or --out FILE to write a dictionary",
        ),
        (["w1"], "at least 10 training pairs with vectors on both sides"),
        (["w1"], "; give more with --train FILE"),
        (["--train", "train.tsv", "nobody"], "no vector for 'nobody'"),
        (["--train", "train.tsv", "w1", "--rounds", "many"], "--rounds must be a number"),
        (["--train", "none.tsv", "w1"], "no such file"),
        (["--train", "train.tsv", "w1", "--n", "0"], "--n (0) must be at least 1"),
        (["--train", "train.tsv", "--out", "nowhere/d.tsv"], "no such folder"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, files: Path, arguments: list[str], sentence: str):
    result = clew("lexicon", "en.txt", "xx.txt", *arguments)
    assert result.status == 2 and sentence in result.err, result.err


@pytest.mark.corpus
def test_csls_improves_english_to_russian(clew: Clew):
    data = Path(os.environ["CLEW_DATA"])
    vectors = [
        data / "vectors" / name for name in ("glove.6B.100d.top40k.txt.gz", "navec_news_v1_1B_250K_300d_100q.tar")
    ]
    train, test = (data / "lexicons" / f"yacle.{name}.en-ru.tsv" for name in ("train.freq.5k", "test.freq.2k"))
    settings = ["--first", "20000", "--prepare", "unit_centre", "--rounds", "0"]
    result = clew("lexicon", *vectors, "--train", train, "--test", test, *settings, "--json")
    nearest, csls = map(json.loads, result.out.splitlines())
    assert nearest["precision@1"] > 13.5 and csls["precision@1"] > nearest["precision@1"] + 2
