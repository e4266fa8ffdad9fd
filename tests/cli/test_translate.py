import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clew as library
from clew.core.errors import UserError
from clew.data.examples import Pair
from clew.data.kinds.pairs import PairsData
from clew.tasks import TASKS
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

SOURCES = "red big fox\n\nold blue owl dog\ncat\n"


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_is_translated_in_order(clew: Clew, translator: Path, tmp_path: Path) -> None:
    result = clew("translate", translator, stdin=SOURCES)
    assert result.status == 0 and result.err == ""
    lines = result.out.split("\n")
    assert len(lines) == 5 and lines[1] == "" and lines[0] and lines[2] and lines[3]
    expected = library.load(translator, device="cpu").translate(SOURCES.splitlines())
    assert lines[:4] == [translation.text for translation in expected]
    Path("sources.txt").write_bytes(b"\xef\xbb\xbf" + SOURCES.replace("\n", "\r\n").encode())
    assert clew("translate", translator, "--file", "sources.txt").out == result.out
    assert clew("predict", translator, "sources.txt").out == result.out
    assert clew("translate", translator, stdin="").out == ""


def test_evaluate_samples_the_same_translations_as_translate(clew: Clew, translator: Path) -> None:
    lines = [line for line in SOURCES.splitlines() if line]
    Path("pairs.tsv").write_text("".join(f"{line}\tcat\n" for line in lines), encoding="utf-8")
    sampled = ["--method", "sample", "--temperature", 2]
    assert clew("evaluate", translator, "pairs.tsv", *sampled, "--out", "found.jsonl").status == 0
    predictions = [row["prediction"] for row in objects(Path("found.jsonl").read_text(encoding="utf-8"))]
    assert predictions == clew("translate", translator, *sampled, stdin="\n".join(lines)).out.splitlines()
    assert len(set(predictions)) > 1


@pytest.mark.slow
def test_a_pipe_is_answered_line_by_line(translator: Path) -> None:
    command = [sys.executable, "-m", "clew", "translate", str(translator), "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        for text in (b"\xef\xbb\xbfred big fox\r\n", b"\n", b"old owl\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert (process.stdout.readline().strip() == b"") == (text == b"\n")
        process.stdin.write(b"cat")
        process.stdin.close()
        assert process.stdout.read().count(b"\n") == 1
        assert process.wait() == 0


def test_n_best_gives_scored_lines_and_an_empty_line_after_each_source(clew: Clew, translator: Path) -> None:
    result = clew("translate", translator, "--n-best", 3, stdin="red big fox\n\ncat\n")
    groups = [group.split("\n") for group in result.out.removesuffix("\n\n").split("\n\n")]
    assert [len(group) for group in groups] == [3, 1, 3] and groups[1] == ["\t0.0000"]
    scores = [float(line.split("\t")[1]) for line in groups[0]]
    assert scores == sorted(scores, reverse=True)
    rows = objects(clew("translate", translator, "--n-best", 3, "--json", stdin="red big fox\n\ncat\n").out)
    assert [(row["line"], row["rank"]) for row in rows] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 3)]
    assert [row["text"] for row in rows[:3]] == [line.split("\t")[0] for line in groups[0]]
    assert rows[0]["score"] == pytest.approx(rows[0]["log_prob"] / (len(rows[0]["tokens"]) + 1))


def test_given_translations_score_as_decoded_ones(clew: Clew, translator: Path) -> None:
    decoded = objects(clew("translate", translator, "--length-penalty", 0, "--json", stdin="red big fox\ncat\n").out)
    Path("targets.txt").write_text("".join(f"{row['text']}\n" for row in decoded), encoding="utf-8")
    scored = clew("translate", translator, "--score", "targets.txt", stdin="red big fox\ncat\n")
    assert [float(line) for line in scored.out.split()] == pytest.approx([row["log_prob"] for row in decoded], abs=1e-3)
    rows = objects(clew("translate", translator, "--score", "targets.txt", "--json", stdin="red big fox\ncat\n").out)
    assert [sum(row["log_probs"]) for row in rows] == pytest.approx([row["log_prob"] for row in rows])
    assert rows[0]["tokens"] == [*decoded[0]["text"].split(), "<eos>"]
    refused = clew("translate", translator, "--score", "targets.txt", stdin="a\nb\nc\n")
    assert refused.err == "clew: targets.txt has 2 lines, but standard input has more: line 3 has no translation\n"
    assert_failed(
        clew("translate", translator, "--score", "targets.txt", stdin="cat\n"),
        "standard input has 1 line, but targets.txt",
    )


def assert_failed(result: Any, sentence: str) -> None:
    assert result.status == 2 and result.err.startswith(f"clew: {sentence}")


def test_several_runs_translate_as_an_ensemble(clew: Clew, translators: dict[str, Path]) -> None:
    lstm, gru = translators["lstm"], translators["gru"]
    alone = objects(clew("translate", lstm, "--json", stdin=SOURCES).out)
    twice = objects(clew("translate", lstm, lstm, "--json", stdin=SOURCES).out)
    both = objects(clew("translate", lstm, gru, "--json", stdin=SOURCES).out)
    reversed_order = objects(clew("translate", gru, lstm, "--json", stdin=SOURCES).out)
    assert [row["text"] for row in twice] == [row["text"] for row in alone]
    assert [row["log_prob"] for row in both] == pytest.approx([row["log_prob"] for row in reversed_order])
    assert [row["log_prob"] for row in both] != pytest.approx([row["log_prob"] for row in alone])
    runs = [library.load(folder, device="cpu") for folder in (lstm, gru)]
    assert [each.text for each in library.translate(runs, SOURCES.splitlines())] == [row["text"] for row in both]
    assert_refused(
        clew("translate", lstm, translators["transformer"], stdin="a\n"),
        f"runs that translate together need the same tokens, but the source vocabularies of {lstm} and"
        f" {translators['transformer']} differ",
    )


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_attention_is_written_as_json_lines_or_as_pictures(clew: Clew, translators: dict[str, Path], name: str) -> None:
    translated = clew("translate", translators[name], "--attention", "a.jsonl", "--n-best", 2, "--json", stdin=SOURCES)
    rows = objects(Path("a.jsonl").read_text(encoding="utf-8"))
    assert [(row["line"], row["rank"]) for row in rows] == [(1, 1), (1, 2), (3, 1), (3, 2), (4, 1), (4, 2)]
    assert rows[0]["source"] == ["red", "big", "fox", "<eos>"]
    assert rows[0]["target"][:-1] == objects(translated.out)[0]["text"].split()
    for row in rows:
        assert len(row["weights"]) == len(row["target"])
        assert [sum(weights) for weights in row["weights"]] == pytest.approx([1.0] * len(row["target"]), abs=1e-3)
    assert clew("translate", translators[name], "--attention", "a.svg", stdin=SOURCES).out.count("\n") == 4
    assert Path("a.svg").read_text(encoding="utf-8").count("<g ") == 3
    pytest.importorskip("matplotlib")
    Path("targets.txt").write_text("fox big red\n", encoding="utf-8")
    assert (
        clew(
            "translate", translators[name], "--score", "targets.txt", "--attention", "a.png", stdin="red big fox\n"
        ).status
        == 0
    )
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")


def test_a_multilingual_run_needs_the_target_language(clew: Clew, translators: dict[str, Path]) -> None:
    many = translators["many"]
    translations = {
        into: objects(clew("translate", many, "--into", into, "--json", stdin="a red fox\n").out)[0]
        for into in ("de", "fr")
    }
    assert translations["de"]["log_prob"] != translations["fr"]["log_prob"]
    refused = clew("translate", many, stdin="a red fox\n")
    assert_refused(refused, "this model translates into de, en, fr; choose one with --into")
    assert_refused(
        clew("translate", many, "--into", "cs", stdin="a\n"),
        "the model was not trained to write 'cs'; it translates into de, en, fr",
    )


def test_a_multilingual_run_is_scored_directly_and_through_a_pivot(clew: Clew, translators: dict[str, Path]) -> None:
    Path("pairs.tsv").write_text("a red fox\tun renard roux\n", encoding="utf-8")
    direct = clew("evaluate", translators["many"], "pairs.tsv", "--into", "fr", "--out", "direct.jsonl")
    assert (
        direct.out.startswith("pairs.tsv: loss ")
        and "BLEU 0.00 (nrefs:1" in direct.out
        and direct.out.endswith("(1 example)\n")
    )
    through = clew(
        "evaluate", translators["many"], "pairs.tsv", "--into", "fr", "--pivot", "de", "--out", "through.jsonl"
    )
    assert through.out.startswith("pairs.tsv: through de: BLEU")
    [row] = objects(Path("through.jsonl").read_text(encoding="utf-8"))
    assert row["pivot"] == clew("translate", translators["many"], "--into", "de", stdin="a red fox\n").out.strip()
    assert (
        row["prediction"]
        == clew("translate", translators["many"], "--into", "fr", stdin=row["pivot"] + "\n").out.strip()
    )


def test_directions_are_scored_separately() -> None:
    pairs = [Pair("a", "b", f"test.en:1 {way}", way[-2:]) for way in ("de-en", "en-de")]
    parts = {"valid": pairs[:1], "test": pairs}
    learning = TASKS["translation"].learns
    separate = learning.apart(parts, PairsData(directions=["de-en", "en-de"]))
    assert separate == {"valid de-en": pairs[:1], "test de-en": pairs[:1], "test en-de": pairs[1:]}
    assert (
        learning.apart(parts, PairsData(directions=["de-en"])) == parts and learning.apart(parts, PairsData()) == parts
    )


def test_a_run_is_evaluated_on_its_own_examples_and_on_other_files(clew: Clew, translators: dict[str, Path]) -> None:
    run = translators["lstm"]
    result = clew("evaluate", run)
    valid, test = result.out.splitlines()
    assert valid.startswith("valid: loss ") and "BLEU" in valid and "|tok:13a|" in valid and "chrF2" in test
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()][-1]
    rows = objects(clew("evaluate", run, "--json", "--out", "all.jsonl").out)
    for row in rows:
        for name in ("loss", "bleu", "chrf"):
            assert row[name] == pytest.approx(logged[f"best.{row['part']}.{name}"], abs=1e-4)
    written = objects(Path("all.jsonl").read_text(encoding="utf-8"))
    assert len(written) == sum(row["examples"] for row in rows) and {row["part"] for row in written} == {
        "valid",
        "test",
    }
    kept = {row["id"]: row for row in objects((run / "predictions.jsonl").read_text(encoding="utf-8"))}
    for row in written:
        if row["part"] == "test":
            assert {name: value for name, value in row.items() if name != "part"} == kept[row["id"]]
    greedy = objects(clew("evaluate", run, "--method", "greedy", "--json").out)
    assert greedy[0]["loss"] == pytest.approx(rows[0]["loss"])
    for name, side in (("s.txt", 0), ("t.txt", 1)):
        lines = [line.split("\t")[side] for line in translators["pairs.tsv"].read_text(encoding="utf-8").splitlines()]
        Path(name).write_text("\n".join(lines[:5]), encoding="utf-8")
    two = clew("evaluate", run, "s.txt", "t.txt").out
    assert two.startswith("s.txt t.txt: loss ") and two.endswith("(5 examples)\n")
    assert clew("evaluate", run, "data.test=[s.txt,t.txt]").out == two.replace("s.txt t.txt:", "test:")


def test_texts_and_runs_can_be_mixed_as_arguments(clew: Clew, translators: dict[str, Path]) -> None:
    lstm, gru = translators["lstm"], translators["gru"]
    lines = clew("translate", lstm, stdin="red old fox\nfox\n").out
    assert clew("translate", lstm, "red old fox", "fox").out == lines != ""
    together = clew("translate", lstm, gru, stdin="red old fox\n").out
    assert (
        clew("translate", lstm, gru, "red old fox").out == together == clew("translate", lstm, "red old fox", gru).out
    )
    Path("targets.txt").write_text("fox old red\n", encoding="utf-8")
    piped = clew("translate", lstm, "--score", "targets.txt", stdin="red old fox\n").out
    assert clew("translate", lstm, "red old fox", "--score", "targets.txt").out == piped
    assert_refused(
        clew("translate", lstm, "--file", "targets.txt", "fox", "--score", "targets.txt"),
        "texts are given both as arguments and with --file",
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["RUN", "red fox", "--file", "no.txt"],
            "texts are given both as arguments and with --file; leave one of them out",
        ),
        (["RUN", "./no-such-run"], "no-such-run is not a run directory (it has no config.json)"),
        (
            ["RUN", "--beams", 3, "--method", "sample"],
            "--beams is for beam search, and --method is sample; leave one of them out",
        ),
        (
            ["RUN", "--n-best", 2, "--method", "greedy"],
            "--n-best is for beam search, and --method is greedy; leave one of them out",
        ),
        (["RUN", "--attention", "a.gif"], "--attention (a.gif) must end in .jsonl, .svg, .png or .pdf"),
        (["RUN", "--attention", "none/a.svg"], "no such folder for --attention: none; create it first"),
        (
            ["RUN", "--attention", "a.svg", "--layer", 4],
            "no layer 4 of the decoder attends to the source; choose 1 to 1",
        ),
        (
            ["RUN", "--layer", 1],
            "--layer selects the layer that --attention shows; add --attention FILE, or leave --layer out",
        ),
        (
            ["RUN", "--score", "t.txt", "--n-best", 2],
            "--n-best controls decoding, but --score decodes nothing; leave one",
        ),
        (["RUN", "--score", "t.txt", "--seed", 0], "--seed controls decoding"),
        (["RUN", "--score", "t.txt", "--replace-unknown"], "--replace-unknown controls decoding"),
        (["RUN", "--beams", 0], "--beams must be at least 1, not 0"),
        (["RUN", "--into", "de"], "the model was not trained to write 'de'; it knows no languages by name"),
        (["RUN", "--file", "no.txt"], "no such file: no.txt"),
        (["LM"], "{LM} is a run of the task language_model, which cannot translate; use `clew generate`"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    clew: Clew, translator: Path, gpt: Path, arguments: list[object], sentence: str
) -> None:
    names = {"RUN": translator, "LM": gpt}
    words = [names.get(str(argument), argument) for argument in arguments]
    assert_refused(clew("translate", *words, stdin="red fox\n"), sentence.format(**names))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["model.dim=3"], "model.dim=3 cannot be changed: a trained run keeps its model; only data and decoding"),
        (["a", "b", "c"], "pairs are in one file, or in two parallel files, not in 3"),
        (["--streams", 2], "--streams is for a language model's own text"),
        (["--pivot", "en"], "the model was not trained to write 'en'"),
        (["--out", "none/p.jsonl"], "no such folder for --out: none"),
        (["data.sorce=x"], "unknown field 'sorce' of data; did you mean 'source'?"),
    ],
)
def test_mistakes_in_an_evaluation_are_reported_in_one_line(
    clew: Clew, translator: Path, arguments: list[object], sentence: str
) -> None:
    assert_refused(clew("evaluate", translator, *arguments), sentence)


def test_input_that_is_not_utf8_is_rejected_with_its_line(
    clew: Clew, translator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Typed(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            return b"red fox\n\xff\n".decode("utf-8", "surrogateescape")

    monkeypatch.setattr(io, "StringIO", Typed)
    assert_refused(clew("translate", translator), "standard input, line 2: byte 1 is not UTF-8; convert the text first")


def test_each_verb_names_the_verb_that_fits_the_run(clew: Clew, translator: Path) -> None:
    assert_refused(
        clew("generate", translator, "red"),
        f"{translator} is a run of the task translation, which cannot generate; use `clew translate`",
    )
    run = library.load(translator, device="cpu")
    for refused in (
        lambda: run.stream("red"),
        lambda: run.score("red"),
        lambda: run.generate("red"),
        lambda: run.parse("red"),
    ):
        with pytest.raises(
            UserError, match=r"a run of the task translation, which cannot .*; use `run\.translate\(\.\.\.\)`"
        ):
            refused()
    assert_refused(
        clew("predict", translator, "--samples", 3, stdin="a\n"),
        "unrecognized arguments: --samples 3; `clew translate --help`",
    )


def test_one_text_gives_one_translation_and_several_give_a_list(translator: Path) -> None:
    run = library.load(translator, device="cpu")
    one = run.translate("red big fox")
    [same, blank] = run.translate(["red big fox", " "])
    assert str(one) == one.text == same.text and blank.text == ""
    best = run.translate("red big fox", n_best=2)
    assert [each.score for each in best] == sorted((each.score for each in best), reverse=True)
    assert run.score_translation("red big fox", one.text).log_prob == pytest.approx(one.log_prob, abs=1e-4)
    assert run.align("red big fox", "fox big").weights.shape == (3, 4)
    assert repr(run).endswith(" words)")
    with pytest.raises(UserError, match=r"has several tokenizers; use vocabularies\[role\] with one of the roles"):
        _ = run.tokenizer


def test_translation_runs_and_recipes_are_described_and_compared(clew: Clew, translators: dict[str, Path]) -> None:
    rows = objects(clew("describe", translators["transformer"], "--json").out)
    assert rows[-1]["kind"] == "SequenceToSequence"
    assert rows[-1]["parameters"] == sum(
        row["parameters"] for row in rows if row["path"].count(".") == 0 and row["path"]
    ) + sum(size for shape in rows[-1]["shapes"].values() for size in shape)
    assert "Bidirectional" in clew("describe", translators["lstm"]).out
    settings = [
        "data.corpus=copy",
        "data.size=50",
        "data.source=null",
        "data.target=null",
        "text.tokenizer=word",
        "text.size=null",
    ]
    assert "EncoderDecoder" in clew("describe", "tatoeba-lstm", *settings).out
    listed = clew("runs", translators["lstm"].parent).out
    assert "test bleu" in listed
    compared = clew("compare", translators["lstm"], translators["gru"], "--measure", "test.chrf")
    assert "paired bootstrap" in compared.out and "test bleu" in compared.out
    assert clew("average", translators["lstm"], "--out", "average").status == 0
    assert clew("translate", "average", stdin="red big fox\n").out.strip()


def test_training_ends_with_examples_and_the_next_command(
    clew: Clew, translators: dict[str, Path], tmp_path: Path
) -> None:
    from tests.runs.small import pair_settings

    result = clew("train", "tatoeba-lstm", *pair_settings(tmp_path), "--out", "run")
    assert result.status == 0, result.err
    parts = result.out.strip().split("\n\n")
    assert len(parts) == 3
    for part in parts:
        source, target, written = part.split("\n")
        assert target == "wanted:  " + " ".join(reversed(source.removeprefix("source:  ").split()))
        assert written.startswith("written:")
    first = parts[0].split("\n")[0].removeprefix("source:  ")
    assert f"next:  echo '{first}' | clew translate run\n" in result.err


GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "translation.md"


def test_the_code_of_the_guide_runs(
    translators: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    for name in ("tatoeba-transformer", "tatoeba-transformer-2"):
        Path("runs", name).symlink_to(translators["transformer"])
    block = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    assert names["alignment"].target.words == ["Good", "morning!", "<eos>"]
    assert names["shown"].source.words == ["Ich", "bin", "müde.", "<eos>"]
    assert names["together"][0].text == names["run"].translate("Guten Morgen!").text


def test_the_encoder_gives_vectors_of_texts(clew: Clew, translator: Path, translators: dict[str, Path]) -> None:
    run = library.load(translator)
    text = "red big fox"
    with torch.no_grad():
        values = run.task.body.encode(torch.tensor(run.task.encode_sources([Pair(text, "")]))).values[0]
    np.testing.assert_allclose(run.embed(text), values.mean(0), atol=1e-6)
    np.testing.assert_allclose(run.embed(text, tokens=True), values[:-1], atol=1e-6)
    assert len(objects(clew("embed", translator, text, "--layer", "0").out)[0]["vector"]) > 0
    assert_refused(
        clew("embed", translators["many"], text), "this model reads a text together with its target language"
    )
