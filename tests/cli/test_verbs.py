import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew as library
from clew.cli.recipes import lines_of
from clew.recipes import RECIPES
from clew.recipes.resolving import config_of
from clew.runs.folder.run_files import read_metrics
from tests.cli.conftest import Clew
from tests.runs.small import TEXT, gpt_settings, lstm_settings, write_text


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_training_writes_a_run_and_suggests_the_next_command(clew: Clew, tmp_path: Path) -> None:
    result = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=5), "--out", "run")
    assert result.status == 0
    assert "device cpu: as requested" in result.err
    assert "5 steps in 0:0" in result.err and "validation: loss" in result.err
    assert "clew generate run" in result.err
    assert 300 <= len(result.out) <= 301, "only the sample is data"
    assert {path.name for path in Path("run").iterdir()} - {"events"} == {
        "config.json",
        "model.safetensors",
        "metrics.jsonl",
        "environment.json",
        "vocabulary",
        "checkpoints",
    }
    losses = [record["train.loss"] for record in read_metrics(Path("run")) if "train.loss" in record]
    assert len(losses) == 5 and losses[0] == pytest.approx(math.log(len(set(TEXT)) + 1), rel=0.1)


def test_options_may_stand_between_settings(clew: Clew, tmp_path: Path) -> None:
    first, *rest = lstm_settings(tmp_path, steps=2)
    assert clew("train", "text-lstm", first, "--out", "run", *rest).status == 0
    assert clew("generate", "run", "--max-new", "3", "the", "--method", "greedy", "she").out.startswith("--- 1\nthe")


def test_a_yaml_file_can_be_trained(clew: Clew, tmp_path: Path) -> None:
    printed = clew("recipes", "text-lstm", *lstm_settings(tmp_path, steps=2))
    Path("mine.yaml").write_text(printed.out)
    assert clew("train", "mine.yaml", "--out", "run").status == 0
    assert library.load("run", device="cpu").config.model.dim == 16


def test_training_shows_a_sample_if_the_run_decodes_by_beam(clew: Clew, tmp_path: Path) -> None:
    settings = [*lstm_settings(tmp_path, steps=2), "decoding.method=beam", "decoding.n_best=2", "decoding.max_new=8"]
    result = clew("train", "text-lstm", *settings, "--out", "run")
    assert result.status == 0 and len(result.out) in (8, 9)


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_greedy_text_equals_that_of_the_library(clew: Clew, trained: dict[str, Path], name: str) -> None:
    result = clew("generate", trained[name], "the thread", "--method", "greedy", "--max-new", 40)
    assert result == (
        0,
        f"{library.load(trained[name], device='cpu').generate('the thread', method='greedy', max_new=40)}\n",
        "",
    )


def test_debug_reports_how_decoding_runs_for_one_command(clew: Clew, lstm: Path) -> None:
    arguments = ("generate", lstm, "the", "--method", "greedy", "--max-new", 30)
    debugged, plain = clew(*arguments, "--debug"), clew(*arguments)
    assert debugged[:2] == (0, plain.out)
    assert re.fullmatch(r"decoding runs from a tape of \d+ calls\n", debugged.err)
    assert plain.err == ""


def test_the_seed_determines_a_sample(clew: Clew, lstm: Path) -> None:
    texts = [clew("generate", lstm, "the", "--seed", seed, "--max-new", 30).out for seed in (1, 1, 2, -1)]
    assert texts[0] == texts[1] and len(set(texts)) == 3
    assert all(len(text) == len("the") + 30 + 1 for text in texts)


def test_beam_search_shows_its_n_best_with_scores(clew: Clew, lstm: Path) -> None:
    result = clew("generate", lstm, "the", "--method", "beam", "--beams", 4, "--n-best", 3, "--max-new", 8, "--json")
    rows = lines(result.out)
    assert len(rows) == 3
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert all(row["score"] == pytest.approx(row["log_prob"] / 8) for row in rows)
    shown = clew("generate", lstm, "the", "--method", "beam", "--n-best", 2, "--max-new", 8).out.splitlines()
    assert shown[0].startswith("--- 1 (score -") and shown[1].startswith("the")


def test_samples_are_measured_on_standard_error(clew: Clew, lstm: Path) -> None:
    result = clew("generate", lstm, "the", "she", "--samples", 3, "--measure", "--json", "--max-new", 12)
    rows = lines(result.out)
    assert [row["prompt"] for row in rows] == ["the"] * 3 + ["she"] * 3
    assert len({row["text"] for row in rows}) == 6
    assert [line.split(":")[0] for line in result.err.splitlines()] == [f"character {n}-grams" for n in (1, 2, 3, 4)]


def test_json_of_a_sample_has_its_tokens_and_probability(clew: Clew, gpt: Path) -> None:
    (row,) = lines(clew("generate", gpt, "the", "--json", "--max-new", 9).out)
    tokenizer = library.load(gpt, device="cpu").tokenizer
    assert tokenizer.decode(row["tokens"]) == row["text"] and len(row["tokens"]) == 9
    assert row["log_prob"] < 0


def test_a_draft_leaves_the_text_unchanged_and_is_reported(clew: Clew, lstm: Path, gpt: Path) -> None:
    arguments = ("generate", gpt, "the", "--method", "greedy", "--max-new", 40)
    plain = clew(*arguments)
    for draft in (lstm, gpt, "prompt"):
        assert clew(*arguments, "--draft", draft) == plain
        result = clew(*arguments, "--draft", draft, "--json", "--measure")
        (row,) = lines(result.out)
        assert row["rounds"] + row["accepted"] == 39
        assert result.err.splitlines()[-1].startswith("draft: ")
    (row,) = lines(clew("generate", gpt, "the", "--draft", gpt, "--json", "--max-new", 20).out)
    assert row["accepted"] == row["proposed"]


def test_unsuitable_drafts_are_rejected(clew: Clew, gpt: Path, translators: dict[str, Path]) -> None:
    result = clew("generate", gpt, "the", "--draft", "prompt", "--beams", 3)
    assert result == (
        2,
        "",
        "clew: --draft is for sampling and greedy decoding, and --method is beam; leave one of them out\n",
    )
    remedy = "which is not the folder of a run; give a run, or prompt for n-grams of the text"
    assert clew("generate", gpt, "the", "--draft", "nowhere") == (2, "", f"clew: --draft is 'nowhere', {remedy}\n")
    result = clew("generate", gpt, "the", "--draft", translators["lstm"])
    assert result.status == 2 and "is a run of the task translation, which cannot generate" in result.err


def test_sampling_options_reach_the_sampler(clew: Clew, lstm: Path) -> None:
    greedy = clew("generate", lstm, "the", "--method", "greedy", "--max-new", 20).out
    assert clew("generate", lstm, "the", "--top-k", 1, "--max-new", 20).out == greedy
    assert clew("generate", lstm, "the", "--top-p", 1e-9, "--max-new", 20).out == greedy
    assert clew("generate", lstm, "the", "--temperature", 1e-4, "--max-new", 20).out == greedy
    assert clew("generate", lstm, "the", "--temperature", 5, "--max-new", 20).out != greedy
    text = clew("generate", lstm, "the", "--method", "greedy", "--no-repeat-ngram", 2, "--max-new", 20).out.rstrip("\n")
    pairs = [text[i : i + 2] for i in range(len(text) - 1)]
    assert len(pairs) == len(set(pairs))


def test_predict_continues_every_line(clew: Clew, lstm: Path, tmp_path: Path) -> None:
    from_stdin = clew("predict", lstm, "--json", "--max-new", 5, "--method", "greedy", stdin="the\n\nshe tied\n")
    path = write_text(tmp_path, "the\n\nshe tied\n", "prompts.txt")
    from_file = clew("predict", lstm, path, "--json", "--max-new", 5, "--method", "greedy")
    assert from_stdin == from_file
    assert [row["prompt"] for row in lines(from_stdin.out)] == ["the", "she tied"]
    alone = clew("generate", lstm, "she tied", "--json", "--max-new", 5, "--method", "greedy")
    assert lines(from_stdin.out)[1]["text"] == lines(alone.out)[0]["text"]


def test_evaluating_a_run_repeats_the_scores_of_training(clew: Clew, lstm: Path) -> None:
    result = clew("evaluate", lstm, "--json")
    (row,) = lines(result.out)
    best = [record for record in read_metrics(lstm) if "best.valid.loss" in record][-1]
    assert row["text"] == "valid" and row["loss"] == pytest.approx(best["best.valid.loss"], rel=1e-6)
    assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
    shown = clew("evaluate", lstm).out
    assert shown.startswith("valid: loss ") and shown.endswith(f"({row['tokens']:,} tokens)\n")
    assert row["baseline_kneser_ney"] == pytest.approx(best["best.valid.baseline_kneser_ney"])
    assert f"; 5-grams (Kneser-Ney) have loss {row['baseline_kneser_ney_loss']:.4f} and perplexity" in shown


def test_more_streams_score_as_many_tokens(clew: Clew, lstm: Path) -> None:
    counts = {lines(clew("evaluate", lstm, "--json", "--streams", streams).out)[0]["tokens"] for streams in (1, 3)}
    assert len(counts) == 1


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_log_probs_of_a_file_sum_to_its_loss(clew: Clew, trained: dict[str, Path], tmp_path: Path, name: str) -> None:
    text = "when she had found him\nthey went in\n" * 3
    path = write_text(tmp_path, text, "new.txt")
    *tokens, total = lines(clew("evaluate", trained[name], path, "--json").out)
    assert "".join(row["token"] for row in tokens) == text[1:]
    assert sum(row["log_prob"] for row in tokens) == pytest.approx(-total["loss"] * total["tokens"])
    assert total["tokens"] == len(tokens) == len(text) - 1
    assert total["bits_per_character"] == pytest.approx(total["loss"] / math.log(2))
    from_stdin = lines(clew("evaluate", trained[name], "-", "--json", stdin=text).out)
    assert from_stdin[:-1] == tokens and from_stdin[-1] == {**total, "text": "-"}


def test_unknown_characters_are_counted(clew: Clew, lstm: Path) -> None:
    result = clew("evaluate", lstm, "-", stdin="the % thread %\n")
    assert result.status == 0
    assert result.err == "2 of 15 tokens are unknown to the model\n"


def test_recipes_are_listed_with_published_results(clew: Clew) -> None:
    result = clew("recipes")
    for name, recipe in RECIPES.items():
        assert f"{name:20}" in result.out and recipe.about in result.out and recipe.published in result.out
    assert [row["name"] for row in lines(clew("recipes", "--json").out)] == list(RECIPES)


def test_recipes_are_listed_by_task(clew: Clew) -> None:
    printed = clew("recipes").out.splitlines()
    headings = [line for line in printed if line and not line.startswith(" ")]
    assert headings == list(dict.fromkeys(recipe.task.replace("_", " ") for recipe in RECIPES.values()))
    start = printed.index("translation")
    names = [line.split()[0] for line in printed[start + 1 : printed.index("", start)] if line[2] != " "]
    assert names == [name for name, recipe in RECIPES.items() if recipe.task == "translation"]


@pytest.mark.parametrize(
    ("word", "example"),
    [("translation", "multi30k-lstm"), ("German", "tatoeba-lstm"), ("masked-language", "bert-base")],
)
def test_recipes_can_be_searched_by_word(clew: Clew, word: str, example: str) -> None:
    names = [row["name"] for row in lines(clew("recipes", word, "--json").out)]
    assert example in names and "shakespeare-lstm" not in names and len(names) < len(RECIPES) / 4


def test_every_recipe_is_listed_under_its_task() -> None:
    for name, recipe in RECIPES.items():
        assert recipe.task == config_of(name).task.name


@pytest.mark.parametrize("columns", [40, 80])
def test_recipes_fit_on_a_terminal(columns: int) -> None:
    for name, recipe in RECIPES.items():
        printed = lines_of(name, recipe, max(map(len, RECIPES)), columns)
        assert max(map(len, printed)) <= columns
        assert recipe.about.split() == " ".join(printed).split()[1 : 1 + len(recipe.about.split())]


def test_a_recipe_is_printed_with_all_settings(clew: Clew) -> None:
    result = clew("recipes", "shakespeare-gpt", "model.dim=64")
    assert "  dim: 64\n" in result.out and "  num_heads: 4\n" in result.out
    assert json.loads(clew("recipes", "shakespeare-gpt", "--json").out)["model"]["dim"] == 128


def test_parameters_in_a_description_sum_to_the_total(clew: Clew, lstm: Path) -> None:
    *parts, total = lines(clew("describe", lstm, "--json").out)
    run = library.load(lstm, device="cpu")
    assert total["parameters"] == sum(p.numel() for p in run.task.parameters())
    own = sum(math.prod(shape) for shape in total["shapes"].values())
    assert total["parameters"] == own + next(row["parameters"] for row in parts if row["path"] == "body")
    cell = next(row for row in parts if row["path"].endswith("cell"))
    assert cell["shapes"] == {"input_weight": [64, 8], "hidden_weight": [64, 16], "bias": [64]}
    shown = clew("describe", lstm).out
    assert "input_weight 64 x 8, hidden_weight 64 x 16, bias 64" in shown
    assert f"{total['parameters']:,}" in shown.splitlines()[-1]


def test_a_recipe_is_described_without_training_it(clew: Clew, tmp_path: Path) -> None:
    result = clew("describe", "text-gpt", *gpt_settings(tmp_path))
    assert result.status == 0 and "SelfAttention" in result.out
    assert not Path("runs").exists()


CELL = '''
import torch
from torch import nn
from clew.layers.cells import CELLS, Cell


class Leaky(Cell):
    """h' = (1 - a) h + a tanh(W x + U h)."""

    def __init__(self, input_dim, dim, *, rate: float = 0.5):
        super().__init__(input_dim, dim)
        self.rate = rate
        self.input_weight = nn.Linear(input_dim, dim)
        self.hidden_weight = nn.Linear(dim, dim, bias=False)

    def inputs(self, x):
        return self.input_weight(x)

    def forward(self, inputs, state):
        hidden = (1 - self.rate) * state + self.rate * torch.tanh(inputs + self.hidden_weight(state))
        return hidden, hidden


CELLS["NAME"] = Leaky
'''


@pytest.fixture
def cells() -> Iterator[dict]:
    """The table of cells, restored after a test that adds to it."""
    from clew.layers.cells import CELLS

    before = dict(CELLS)
    yield CELLS
    CELLS.clear()
    CELLS.update(before)


def test_a_user_defined_cell_can_be_trained_and_used(clew: Clew, tmp_path: Path, cells: dict) -> None:
    code = write_text(tmp_path, CELL.replace("NAME", "leaky"), "mine.py")
    result = clew(
        "train",
        "text-lstm",
        *lstm_settings(tmp_path, steps=3),
        "model.cell=leaky",
        "model.cell.rate=0.3",
        "--code",
        code,
        "--out",
        "run",
    )
    assert result.status == 0, result.err
    assert Path("run/code.py").read_text() == code.read_text()
    assert f"--code {code}" in result.err
    without = clew("generate", "run", "the")
    assert without == (
        2,
        "",
        "clew: run was trained with a user's code, which is never loaded automatically; review run/code.py "
        "and pass --code run/code.py\n",
    )
    assert clew("generate", "run", "the", "--max-new", 5, "--code", code).out.startswith("the")
    assert clew("evaluate", "run", "--code", "run/code.py").status == 0
    own = ["model.cell=leaky", "--code", "run/code.py", "--out", "run", "--overwrite"]
    assert clew("train", "text-lstm", *lstm_settings(tmp_path, steps=1), *own).err.endswith(
        "clew: run/code.py is in run, which would be deleted; copy the file elsewhere, or choose another folder\n"
    )
    resumed = clew("train", "text-lstm", "--out", "run", "--resume", "training.steps=4", "--code", code)
    assert resumed.status == 0, resumed.err


def test_a_correct_user_defined_cell_satisfies_the_laws(clew: Clew, tmp_path: Path, cells: dict) -> None:
    code = write_text(tmp_path, CELL.replace("NAME", "lawful"), "lawful.py")
    result = clew("check", code)
    assert result.status == 0, result.out
    holding, laws = re.findall(r"(\d+) of (\d+) laws hold", result.out)[-1]
    assert holding == laws and int(holding) > 5


def test_a_cell_that_mixes_rows_breaks_a_law(clew: Clew, tmp_path: Path, cells: dict) -> None:
    wrong = CELL.replace("NAME", "leaking").replace(
        "return hidden, hidden", "hidden = hidden + hidden.mean(0, keepdim=True)\n        return hidden, hidden"
    )
    result = clew("check", write_text(tmp_path, wrong, "leaking.py"))
    assert result.status == 1
    assert "cell 'leaking': " in result.out and "is broken" in result.out and "smallest case:" in result.out
    rows = lines(clew("check", write_text(tmp_path, wrong.replace("leaking", "leaking2"), "leaking2.py"), "--json").out)
    assert {row["holds"] for row in rows} == {True, False}


def test_a_file_that_adds_nothing_is_rejected(clew: Clew, tmp_path: Path) -> None:
    result = clew("check", write_text(tmp_path, "x = 1\n", "nothing.py"))
    assert result.status == 2 and "adds nothing to the tables with laws (cell, score, " in result.err
    assert 'task, model); add a line such as CELLS["mine"] = Mine' in result.err


ADDED = """
from clew.data.formats import FORMATS
from clew.instruments import INSTRUMENTS
INSTRUMENTS["norms 2"] = INSTRUMENTS["tokens"]
FORMATS["vertical"] = FORMATS["tsv"]
"""


def test_additions_without_laws_are_named_with_a_command(clew: Clew, tmp_path: Path) -> None:
    from clew.data.formats import FORMATS
    from clew.instruments import INSTRUMENTS

    code = write_text(tmp_path, ADDED, "norms.py")
    try:
        result = clew("check", code)
    finally:
        del INSTRUMENTS["norms 2"], FORMATS["vertical"]
    assert (result.status, result.out) == (0, "")
    assert result.err.splitlines() == [
        f"{code} adds instrument 'norms 2', which no law checks; try it: clew look 'norms 2' RUN --code {code}",
        f"{code} adds corpus format 'vertical', which no law checks; try it: clew data FILE --code {code}",
    ]


def test_check_notes_a_replaced_entry_and_groups_laws_by_setting(
    clew: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.layers.scores import SCORES

    for name in ("dot", "general"):
        monkeypatch.setitem(SCORES, name, SCORES[name])
    code = write_text(tmp_path, "from clew.layers.scores import SCORES\nSCORES['dot'] = SCORES['general']\n", "dot.py")
    result = clew("check", code)
    assert result.status == 0
    assert result.err == f"note: {code} replaces the score 'dot' of clew\n"
    first, *others = result.out.splitlines()
    assert re.match(r"score 'dot': (\d+) of \1 laws hold: contract, ", first) and "self-attention" not in first
    assert [re.match(r" +(in self-attention.*): contract, ", other) is not None for other in others] == [True] * len(
        others
    )
    assert others and all(len(other) < 500 for other in others)


def test_check_takes_user_code_as_its_argument(clew: Clew, tmp_path: Path) -> None:
    code = write_text(tmp_path, "x = 1\n", "own.py")
    result = clew("check", code, "--code", code)
    assert result.status == 2
    assert result.err == "clew: `clew check FILE.py` takes the file as its argument; leave --code out\n"


def test_streams_apply_only_to_the_text_of_the_run(clew: Clew, lstm: Path, tmp_path: Path) -> None:
    result = clew("evaluate", str(lstm), "--streams", "1")
    assert result.status == 0 and "valid: loss" in result.out
    refused = clew("evaluate", str(lstm), str(write_text(tmp_path)), "--streams", "1")
    assert refused.status == 2
    assert refused.err == "clew: --streams is for the run's own text; a FILE is always read as one stream\n"
