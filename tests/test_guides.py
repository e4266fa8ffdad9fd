"""The code of guides runs unchanged, and their commands parse. Code that needs a run is tested with its verb."""

import re
import shlex
from pathlib import Path

import pytest

from clew.cli.main import main, verb_parser
from clew.cli.verbs import find_verb
from clew.recipes.resolving import config_of
from clew.studies.space import read_space
from tests.runs.pretrained import save_pretrained
from tests.runs.small import save_many_languages

GUIDES = sorted((Path(__file__).parents[1] / "docs" / "guides").glob("*.md"))
GUIDE = next(guide for guide in GUIDES if guide.stem == "own-data")


def code_of(guide: Path) -> str:
    block = re.search(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block[1]


def blocks_of(guide: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)


def test_the_code_on_own_data_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text(
        "review,stars\n" + "".join(f"film {n},{n % 3}\n" for n in range(30)) + ",1\n\n", encoding="utf-8"
    )
    Path("names.conll").write_text("Ada NNP B-PER\nruns VBZ O\n\nBo NNP B-PER\n", encoding="utf-8")
    Path("corpus").mkdir()
    for language, text in {"en": "a cat\n", "de": "eine Katze\n"}.items():
        Path(f"corpus/train.{language}").write_text(text, encoding="utf-8")
    names: dict = {}
    exec(code_of(GUIDE), names)
    assert {name: len(part) for name, part in names["parts"].items()} == {"train": 24, "valid": 6}
    assert names["pairs"][1][:2] == ("a dog", "ein Hund")
    assert names["tagged"][0].tags == ("B-PER", "O")
    shown = capsys.readouterr().out
    assert "reviews.csv: comma-separated values, 31 records" in shown
    assert "skipped 1 x empty field (first: reviews.csv:32)" in shown


def test_a_file_is_described_as_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("german,english\neine Katze,a cat\nder Hund,the dog\nja,yes,yes\n", encoding="utf-8")
    assert main(["data", "pairs.csv"]) == 0
    assert f"```\n{capsys.readouterr().out}```" in GUIDE.read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every call of `clew` in the blocks of the guides, without shell syntax around it."""
    fenced = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
    blocks = [block for guide in GUIDES for block in fenced.findall(guide.read_text(encoding="utf-8"))]
    calls = [
        part.partition("<")[0].partition(">")[0]
        for block in blocks
        for line in block.splitlines()
        for part in line.split(" | ")
    ]
    return [call.strip() for call in calls if call.strip().startswith("clew ") and "RECIPE" not in call]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_a_guide_parses(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vectors.txt").write_text(f"king{' 1' * 100}\n", encoding="utf-8")
    for name in re.findall(r"transfer\.from=(\w+)", command):
        save_many_languages(Path(name)) if name in ("marian", "soft") else save_pretrained(Path(name), name)
    verb, rest, _ = find_verb(shlex.split(command)[1:]) or ("", [], False)
    options, more = verb_parser(verb).parse_known_intermixed_args(rest)
    assert not more or options.open
    if verb == "train" and options.search is not None:
        if options.settings:
            read_space(options.recipe, options.settings)
    elif verb == "train":
        config_of(options.recipe, options.settings)


def settings() -> list[tuple[str, str]]:
    """The settings in the tables of guides, each with a recipe to which it applies."""
    recipes = {
        "reading": ["answer-facts"],
        "translation": ["translate", "data.train=pairs.tsv"],
        "parsing": ["craft-parser"],
        "trees": ["gum-tree-lstm"],
        "graphs": ["label-nodes", "data.train=train.conllu"],
        "tagging": ["tag", "data.train=names.conll"],
        "classification": ["classify", "data.train=tickets.csv"],
        "pretraining": ["text-llama", "data.train=corpus"],
        "BERT": ["text-bert", "data.train=corpus"],
        "finetuning": ["finetune-classify", "data.train=reviews.csv"],
    }
    row = re.compile(r"^\| `((?:\w+\.\w+=(?:\{.*?\}|\S+) ?)+)` \|", re.MULTILINE)
    texts = {guide.stem: guide.read_text(encoding="utf-8") for guide in GUIDES}
    texts["pretraining"], texts["BERT"] = texts["pretraining"].split("## BERT\n")
    return [(" ".join(recipes[name]), setting) for name in recipes for setting in row.findall(texts[name])]


@pytest.mark.parametrize(("recipe", "setting"), settings())
def test_a_setting_of_a_guide_is_valid(recipe: str, setting: str) -> None:
    name, *assignments = recipe.split()
    config_of(name, [*assignments, *re.findall(r"\w+\.\w+=(?:\{.*?\}|\S+)", setting)])


def test_the_code_on_fine_tuning_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    save_pretrained(Path("bert"))
    names: dict = {}
    exec(code_of(GUIDE.with_stem("finetuning")), names)
    assert set(capsys.readouterr().out.split()) <= {"delivery", "billing"}
    sizes = [(Path("runs") / name / "model.safetensors").stat().st_size for name in ("small", "delivery")]
    assert sizes[0] < sizes[1]


@pytest.mark.slow
def test_the_code_on_searching_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code_of(GUIDE.with_stem("search")), names)
    assert names["run"].config.model.dim == int(names["found"].best.settings["model.dim"])
    assert "3 of 3 trials ended" in capsys.readouterr().out and Path("search.html").stat().st_size > 1000


@pytest.mark.slow
def test_the_code_on_word_vectors_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code_of(GUIDE.with_stem("word-vectors")), names)
    assert names["same"].words.words == names["vectors"].words.words
    assert "('his'" in capsys.readouterr().out  # his = he - she + her


@pytest.mark.slow
def test_the_code_on_baselines_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code_of(GUIDE.with_stem("baselines")), names)
    shown = capsys.readouterr().out
    accuracy = {
        name: float(figure) for name, figure in re.findall(r"(naive Bayes|most frequent class): ([\d.]+)", shown)
    }
    assert accuracy["naive Bayes"] > 70 > 60 > accuracy["most frequent class"]
    assert "'DET', 'NOUN', 'VERB', 'PRON', 'ADP', 'NUM', 'PUNCT'" in shown
    assert names["vectors"].nearest("king", 1)[0][1] > 0.5
    assert Path("vectors.txt").is_file()


def test_the_code_on_exporting_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(code_of(GUIDE.with_stem("exporting")), {})
    assert "exports/notes/classifier.pt2" in capsys.readouterr().out.splitlines()


def test_the_code_on_user_defined_modules_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    weights, guide = [], GUIDE.with_stem("own-module")
    for _ in range(2):  # the second time the fit is finished already
        names: dict = {}
        exec(code_of(guide), names)
        weights.append(names["fitted"].module.map.weight.detach())
    assert weights[0].tolist()[0] == pytest.approx([1, -2, 3], abs=0.1)
    assert (weights[0] == weights[1]).all()


@pytest.mark.slow
def test_the_code_on_user_defined_batches_and_loops_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    names: dict = {"__name__": "guide"}
    for block in blocks_of(GUIDE.with_stem("own-module")):
        exec(block, names)
    assert names["counted"].measures["loss"] < 0.2 and float(names["loss"].detach()) < 0.2
    assert [str(each) for each in names["run"].classify(["late again", "paid twice"])] == ["delivery", "billing"]


@pytest.mark.slow
def test_the_code_on_python_runs_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        names: dict = {}
        for block in blocks_of(GUIDE.with_stem("python")):
            exec(block, names)
        shown = capsys.readouterr().out
        assert shown.startswith("delivery\n") and "unknown keyword 'steps'; did you mean training__steps?" in shown
    assert Path("view.html").is_file()


def test_the_code_on_pictures_and_sound_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code_of(next(guide for guide in GUIDES if guide.stem == "pictures-and-sound")), {})
    assert capsys.readouterr().out == "torch.Size([1, 33, 60])\ntorch.Size([48, 48, 3]) 36\n"
