"""`clew train` on the user's pairs: data that are rejected, skipped with a message, or used for training."""

from pathlib import Path

import pytest

from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused
from tests.training.pairs import LSTM

SMALL = [*LSTM, "training.steps=2", "training.evaluate_every=2"]


def write(name: str, text: str) -> None:
    Path(name).write_bytes(text.encode())


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (
            "a\nb\nc\n",
            "A\nB\n",
            (
                "train.de has 3 lines and train.en 2: line 3 of train.de has no partner; line n of one must translate"
                " line n"
            ),
        ),
        (
            "a\n\nc\n",
            "A\nB\nC\n",
            "train.de:2: this line is empty, and line 2 of train.en is not; fix it, or skip such records with",
        ),
        (
            "a\nb\n",
            "A\n\n",
            ("train.en:2: this line is empty, and line 2 of train.de is not; fix it, or skip such records with data."),
        ),
        (
            "a\n",
            "A\n",
            (
                "1 example with 1 different text cannot give a valid part (valid_fraction=0.1) and something to train"
                " on; give more"
            ),
        ),
        (
            "a\nb\0\n",
            "A\nB\n",
            "train.de:2: there is a NUL character, so this is not plain text, or it is damaged; repair it, or give"
            " another file",
        ),
        ("", "A\n", "train.de: the file is empty; give one with text in it"),
    ],
)
def test_parallel_files_that_do_not_match_are_rejected(clew: Clew, source: str, target: str, sentence: str) -> None:
    write("train.de", source)
    write("train.en", target)
    assert_refused(clew("train", "translate", "data.train=[train.de,train.en]", *SMALL, "--out", "run"), sentence)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("name", "text", "settings", "sentence"),
    [
        (
            "p.tsv",
            "a\tb\nc\n",
            [],
            "p.tsv:2: expected 2 tab-separated columns, found 1; fix it, or skip such records with data.fau",
        ),
        (
            "p.csv",
            "in,out\na,b\n",
            ["data.source=inn", "data.target=out"],
            "p.csv: no column 'inn' for data.source; did you mean 'in'?",
        ),
        (
            "p.jsonl",
            '{"in": "a", "out": "b"}\n{"in": "a"}\n',
            ["data.source=in", "data.target=out"],
            "p.jsonl:2: no field 'out'; there",
        ),
        ("p.jsonl", '{"in": "a"\n', ["data.source=in", "data.target=out"], "p.jsonl:1: "),
    ],
)
def test_tables_without_pairs_are_rejected_with_file_and_line(
    clew: Clew, name: str, text: str, settings: list[str], sentence: str
) -> None:
    write(name, text)
    assert_refused(clew("train", "translate", f"data.train={name}", *settings, *SMALL, "--out", "run"), sentence)


def test_skipped_lines_are_reported_and_the_rest_is_used(clew: Clew) -> None:
    """The files have a byte order mark, CRLF, lines empty on one or both sides, and a line of ten thousand words."""
    words = [f"w{n}" for n in range(30)]
    write(
        "train.de", "\ufeff" + "".join(f"{word} x\r\n" for word in words) + "\r\n" + "\r\n" + "long " * 10_000 + "\r\n"
    )
    write("train.en", "".join(f"y {word}\n" for word in words) + "\n" + "alone\n" + "short\n")
    result = clew(
        "train", "translate", "data.train=[train.de,train.en]", "data.faults=skip", *SMALL, "seed=3", "--out", "run"
    )
    assert result.status == 0, result.err
    assert "skipped 1 x line empty on both sides (first: train.de:31)" in result.err
    assert "skipped 1 x line empty on one side (first: train.de:32)" in result.err
    assert "left out 1 training example of more than 256 tokens on a side (first: train.de:33)" in result.err
    assert "28 train, 3 valid examples" in result.err


def test_a_line_of_ten_thousand_words_is_decoded_and_scored(clew: Clew) -> None:
    write("train.tsv", "".join(f"a b {n}\tb a {n}\n" for n in range(20)))
    write("valid.tsv", "long " * 10_000 + "\tshort\n")
    result = clew("train", "translate", "data.train=train.tsv", "data.valid=valid.tsv", *SMALL, "--out", "run")
    assert result.status == 0, result.err
    assert "BLEU" in result.err and "20 train, 1 valid examples" in result.err


def test_overlaps_between_parts_are_reported(clew: Clew) -> None:
    write("train.tsv", "".join(f"a {n}\tb {n}\n" for n in range(20)))
    write("valid.tsv", "a 3\tb 3\nc 1\td 1\n")
    result = clew("train", "translate", "data.train=train.tsv", "data.valid=valid.tsv", *SMALL, "--out", "run")
    assert "1 of 2 valid examples (50.0%) have a text that the training part has too (first: valid.tsv:1)" in result.err


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            [],
            "there is no training data; name your pairs with data.train, e.g."
            " `clew train translate data.train=pairs.tsv`",
        ),
        (["data.train=p.tsv", "task.measures=[blue]"], "task.measures: unknown measure 'blue'; did you mean 'bleu'?"),
        (["data.train=p.tsv", "task.best=wer"], "unknown value for task.best 'wer'"),
        (
            ["data.train=p.tsv", "task.longest=1"],
            "all 9 training examples have more than 1 tokens on a side, the end included; raise",
        ),
        (
            ["data.train=p.tsv", "training.batching=streams"],
            "training.batching=streams carries a state through one text"
            ", but this task learns from examples; leave it out",
        ),
        (["data.train=p.tsv", "data.turns=0"], "data.turns must be at least 1, not 0"),
        (
            ["data.train=p.tsv", "model.shared_embeddings=true"],
            "shared embeddings need one vocabulary, but the source has 12 tokens and the target 13; train one tokenizer"
            " on both, or set model.shared_embeddings=false",
        ),
    ],
)
def test_invalid_settings_are_rejected(clew: Clew, settings: list[str], sentence: str) -> None:
    write("p.tsv", "".join(f"a {n}\tb {n} c {n}\n" for n in range(10)))
    assert_refused(clew("train", "translate", *SMALL, *settings, "--out", "run"), sentence)


def test_a_body_without_a_source_is_rejected(clew: Clew) -> None:
    write("p.tsv", "a\tb\nc\td\n")
    result = clew("train", "translate", "data.train=p.tsv", "model.family=gpt", "--out", "run")
    assert_refused(
        result,
        "the task translation has a source, which a gpt cannot read; use one of seq2seq, transformer, convolutional",
    )


def test_dialogues_code_and_summaries_can_be_trained_on(clew: Clew) -> None:
    write("talk.txt", "".join(f"hello {n}\nhi {n}\nwhat ?\n\n" for n in range(20)))
    result = clew("train", "dialogue", "data.train=talk.txt", *SMALL, "--out", "talk")
    assert result.status == 0 and "36 train, 4 valid examples" in result.err, result.err
    write("code.csv", "text,code\n" + "".join(f'add {n},"def f(x):\n    return x + {n}\n"\n' for n in range(20)))
    settings = ["data.source=text", "data.target=code", *SMALL, "text.tokenizer=character"]
    result = clew("train", "text-to-code", "data.train=code.csv", *settings, "--out", "code")
    assert result.status == 0 and "% right" in result.err, result.err
    write("articles.jsonl", "".join(f'{{"text": "word {n} " , "summary": "one {n}.\\ntwo {n}."}}\n' for n in range(20)))
    settings = ["data.source=text", "data.target=summary", *SMALL, "text.tokenizer=bpe"]
    result = clew("train", "summarise", "data.train=articles.jsonl", *settings, "--out", "summary")
    assert result.status == 0 and "ROUGE-1" in result.err, result.err
