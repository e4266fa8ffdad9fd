from pathlib import Path

import pytest
import yaml

from clew.core.errors import UserError
from clew.layers.cells import CELLS, GRU
from clew.models import MODELS
from clew.recipes import RECIPES
from clew.recipes.running import config_of
from clew.runs.config import resolve
from clew.runs.fields import commented_yaml, differences
from clew.runs.overriding import override
from clew.runs.values import parse_value

CELL_NAMES, FAMILY_NAMES = ", ".join(sorted(CELLS)), ", ".join(sorted(MODELS))


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (
            "training.stepps=5",
            "unknown field 'stepps' of training; did you mean 'steps'? known: steps, batch_size, batch_tokens, length, batching, "
            "documents, optimiser, learning_rate, schedule, clip_norm, clip_value, ",
        ),
        (
            "trainin.steps=5",
            "unknown field 'trainin'; did you mean 'training'? known: recipe, seed, device, data, text, embedding, transfer, "
            "model, task, training, decoding",
        ),
        ("training.steps=many", "training.steps takes a whole number, not 'many'"),
        ("training.steps=5.5", "training.steps takes a whole number, not 5.5"),
        ("training.steps=true", "training.steps takes a whole number, not True"),
        ("training.steps=0", "training.steps must be at least 1, not 0"),
        ("training.learning_rate=false", "training.learning_rate takes a number, not False"),
        ("training.learning_rate=-1", "training.learning_rate must be above 0, not -1"),
        ("training.learning_rate=NaN", "training.learning_rate takes a number, not 'NaN'"),
        ("training.learning_rate=1e999", "training.learning_rate takes a finite number, not inf"),
        ("training.compile=1", "training.compile takes true or false, not 1"),
        ("training.batching=stream", "training.batching must be one of 'streams' or 'windows', not 'stream'"),
        ("training=5", "training takes fields, not 5"),
        ("data.train=5", "data.train takes a text, not 5"),
        ("data.valid_fraction=1", "data.valid_fraction must be below 1, not 1"),
        ("seed=-1", "seed must be at least 0, not -1"),
        ("device=gpu", "device must be one of 'auto', 'cpu', 'cuda' or 'mps', not 'gpu'"),
        ("model.dim=true", "model.dim takes a whole number, not True"),
        ("model.dimm=5", "unknown field 'dimm' of model; did you mean 'dim'?"),
        ("model.family=gtp", f"model: unknown model family 'gtp'; did you mean 'gpt'? known: {FAMILY_NAMES}"),
        ("model.family=[gpt]", f"model: unknown model family '['gpt']'; did you mean 'gpt'? known: {FAMILY_NAMES}"),
        ("model=gpt", "model: model family takes fields, not 'gpt'"),
        ("model.cell=gur", f"model.cell: unknown cell 'gur'; did you mean 'gru'? known: {CELL_NAMES}"),
        ("model.cell=5", "model.cell: cell takes a name, or a name with options ({name: ..., option: ...}), not 5"),
        (
            "model.cell.forget_bais=1",
            "model.cell: cell 'lstm' has no option 'forget_bais'; did you mean 'forget_bias'? its options: "
            "cell_output, forget_bias, weight_drop",
        ),
        ("model.cell.forget_bias=true", "model.cell: cell option 'lstm.forget_bias' takes a number, not True"),
        ("model.cell.cell_output=3", "model.cell: cell option 'lstm.cell_output' takes a text, not 3"),
        (
            "model.cell={forget_bias: 1}",
            "model.cell: cell takes a name, or a name with options ({name: ..., option: ...}), not {'forget_bias': 1}",
        ),
        ("task.name=languge_model", "task: unknown task 'languge_model'; did you mean 'language_model'? known: bidirectional"),
        (
            "text.tokenizer=wrod",
            "text.tokenizer: unknown tokenizer 'wrod'; did you mean 'word'? known: bpe, character, unigram, word, wordpiece",
        ),
        ("text.tokenizer=[a]", "text.tokenizer: unknown tokenizer '['a']'; known: bpe, character, unigram, word, wordpiece"),
        ("decoding.temperature=0", "decoding.temperature must be above 0, not 0"),
        ("seed.more=1", "seed.more: seed is 1, which has no fields"),
        ("seed=9223372036854775808", "seed takes a number between -2^63 and 2^63, not 9223372036854775808"),
        ("model.dim=1" + "0" * 400, "model.dim takes a number between -2^63 and 2^63, not a number of about 398 digits"),
        ("task.init_scale=1e308", "task.init_scale takes a number between -1e38 and 1e38, not 1e+308"),
        ("model.num_layers=1000000000", "model.num_layers must be at most 1000, not 1000000000"),
        ("model.cell.forget_bias=1" + "0" * 40, "model.cell: cell option 'lstm.forget_bias' takes a number between -2^63 and 2^63, not a"),
        ("training.optimiser=5", "training.optimiser: optimiser takes a name, or a name with options ({name: ..., option: ...}), not 5"),
        ("training.schedule={warmup: 3}", "training.schedule: schedule takes a name, or a name with options"),
        ("mod\x1b[31mel.dim=5", "unknown field 'mod\\x1b[31mel'; did you mean 'model'?"),
        (
            "training.precision=" + "x" * 9999,
            "training.precision must be one of 'float32', 'tf32' or 'bfloat16', not 'xxxxxxxxxxxxxxxxxxxxx",
        ),
        ("training.steps", "a setting is section.field=value, such as training.steps=500, not 'training.steps'"),
        ("=5", "a setting is section.field=value, such as training.steps=500, not '=5'"),
        ("training..steps=5", "a setting is section.field=value, such as training.steps=500, not 'training..steps=5'"),
        ("model.layers=[lstm, {name", "'[lstm, {name' begins like a list or a mapping but is not one; write it as [a, b] or {name: value}"),
    ],
)
def test_a_mistaken_setting_is_one_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        config_of("text-lstm", [assignment])
    assert str(error.value).startswith(sentence)
    assert str(error.value).isprintable() and len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("model.layers=[]", "model.layers: layers takes a list with at least one layer, such as [lstm, {name: attention, window: 64}]"),
        ("model.layers=[lstm, atention]", "model.layers: unknown layer 'atention'; did you mean 'attention'?"),
        ("model.layers=[{name: attention, windw: 3}]", "model.layers: layer 'attention' has no option 'windw'; did you mean 'window'?"),
        ("model.wiring=highwy", "model.wiring: unknown wiring 'highwy'; did you mean 'highway'?"),
    ],
)
def test_a_mistake_in_a_list_of_layers_is_one_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        config_of("text-lstm", ["model.family=mixed", assignment])
    assert str(error.value).startswith(sentence)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown recipe 'shakespear-lstm'; did you mean 'shakespeare-lstm'"):
        config_of("shakespear-lstm")


def test_a_family_resets_the_model_section_and_nothing_else() -> None:
    config = config_of("shakespeare-gpt", ["model.dim=32", "model.family=llama"])
    assert (config.model.family, config.model.dim, config.model.num_layers) == ("llama", 32, 6)
    assert config.training == config_of("shakespeare-gpt").training
    same = config_of("shakespeare-gpt", ["model.family=gpt"])
    assert same.model == config_of("shakespeare-gpt").model


def test_a_part_is_a_name_or_a_name_with_options() -> None:
    for assignments in (
        ["model.cell={name: elman, nonlinearity: relu}"],
        ['model.cell={"name": "elman", "nonlinearity": "relu"}'],
        ["model.cell=elman", "model.cell.nonlinearity=relu"],
    ):
        assert config_of("text-lstm", assignments).model.cell == {"name": "elman", "nonlinearity": "relu"}
    assert config_of("text-lstm", ["model.cell.forget_bias=1", "model.cell=gru"]).model.cell == "gru"


def test_an_option_keeps_the_others_of_its_part() -> None:
    config = config_of("text-lstm", ["training.schedule.floor=0.5"])
    assert config.training.schedule == {"name": "cosine", "warmup": 100, "floor": 0.5}


def test_a_users_entry_in_a_table_is_as_good_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS, "mine", GRU)
    assert config_of("text-lstm", ["model.cell=mine", "model.cell.weight_drop=0.5"]).model.cell == {"name": "mine", "weight_drop": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("5.0", 5.0), ("true", True), ("null", None), ("abc", "abc"), ('"5"', "5"), ("", ""), ("[a, 1]", ["a", 1]), ("a=b", "a=b")],
)
def test_values_are_json_or_lists_or_strings(text: str, value) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_later_settings_win() -> None:
    assert config_of("text-lstm", ["seed=2", "seed=3"]).seed == 3


def test_differences_name_the_fields_that_differ() -> None:
    first = config_of("text-lstm", ["data.train=a.txt"])
    second = config_of("text-lstm", ["data.train=b.txt", "task.bias=false", "training.schedule=constant"])
    assert differences(first, second) == [
        "data.train: 'a.txt' -> 'b.txt'",
        "task.bias: True -> False",
        "training.schedule: {'name': 'cosine', 'warmup': 100, 'floor': 0.02} -> 'constant'",
    ]
    assert differences(first, first) == []


@pytest.mark.parametrize("name", RECIPES)
def test_the_commented_yaml_of_a_recipe_reads_back_as_the_same_config(name: str, tmp_path: Path) -> None:
    config = config_of(name)
    text = commented_yaml(config)
    assert resolve(yaml.safe_load(text)) == config
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert config_of(str(path)) == config


def test_the_commented_yaml_explains_its_fields() -> None:
    lines = commented_yaml(config_of("text-lstm", ['data.train="a: b # c.txt"'])).splitlines()
    assert "  dim: 512  # width of the hidden state" in lines
    assert yaml.safe_load("\n".join(lines))["data"]["train"] == "a: b # c.txt"


def yaml_file(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_yaml_file_is_laid_over_the_recipe_it_names(tmp_path: Path) -> None:
    text = (
        "recipe: shakespeare-gpt\nseed: 7\nmodel:\n  dim: 64\ntask: {name: language_model, tied: "
        "false}\ntraining: {schedule: {name: linear}}\n"
    )
    config = config_of(yaml_file(tmp_path, text), ["seed=8"])
    assert (config.recipe, config.seed, config.model.dim) == ("shakespeare-gpt", 8, 64)
    assert (config.model.num_layers, config.training.schedule) == (4, {"name": "linear"})
    assert (config.task.tied, config.task.bias) == (False, False), "the recipe's own bias stays"


def test_a_family_in_a_yaml_file_resets_the_section_wherever_it_stands(tmp_path: Path) -> None:
    text = "recipe: shakespeare-gpt\nmodel:\n  dim: 64\n  family: llama\n"
    assert config_of(yaml_file(tmp_path, text)).model.model_dump()["num_kv_heads"] is None
    assert config_of(yaml_file(tmp_path, text)).model.dim == 64


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recipe: [", "run.yaml:1: this is not YAML that can be read"),
        (
            "recipe: text-lstm\nseed: !!python/object/apply:os.system ['touch obeyed']\n",
            "run.yaml:2: this is not YAML that can be read: could not determine a constructor",
        ),
        ("- recipe\n", "run.yaml: a run's YAML file has a line `recipe: NAME` and sections below it; `clew recipes NAME` prints one"),
        ("seed: 3\n", "run.yaml: a run's YAML file has a line `recipe: NAME`"),
        ("", "run.yaml: a run's YAML file has a line `recipe: NAME`"),
        ("recipe: 3\n", "run.yaml: a run's YAML file has a line `recipe: NAME`"),
        ("recipe: text-lstm\n5: 3\n", "run.yaml:2: this is not YAML that can be read: a name is a text, not 5"),
        ("recipe: text-lstn\n", "unknown recipe 'text-lstn'; did you mean 'text-lstm'?"),
        ("recipe: text-lstm\nmodel: {dimm: 3}\n", "unknown field 'dimm' of model; did you mean 'dim'?"),
        ("recipe: text-lstm\nmodel: {dim: '3'}\n", "model.dim takes a whole number, not '3'"),
        ("recipe: text-lstm\nseed: 2020-01-01\n", "seed takes a whole number, not '2020-01-01'"),
        ("recipe: text-lstm\ntraining: {learning_rate: .nan}\n", "training.learning_rate takes a finite number, not nan"),
        ("recipe: text-lstm\nmodel:\n", "model: model family takes fields, not None"),
    ],
)
def test_a_mistaken_yaml_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str) -> None:
    monkeypatch.chdir(tmp_path)
    yaml_file(tmp_path, text)
    with pytest.raises(UserError) as error:
        config_of("run.yaml")
    assert str(error.value).startswith(sentence)
    assert not (tmp_path / "obeyed").exists()


@pytest.mark.parametrize("line", ["model: 5", "model: [gpt]", "task: null"])
def test_a_family_set_over_a_section_that_is_none_resets_it(tmp_path: Path, line: str) -> None:
    path = yaml_file(tmp_path, f"recipe: text-lstm\n{line}\n")
    section, given = ("model", "model.family=gpt") if line.startswith("model") else ("task", "task.name=language_model")
    assert getattr(config_of(path, [given]), section) == getattr(config_of("text-lstm", ["model.family=gpt"]), section)


def test_a_yaml_file_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(UserError, match="no such file: nowhere.yaml; a recipe is a name from `clew recipes` or a YAML file"):
        config_of("nowhere.yaml")
    with pytest.raises(UserError, match=r"no such file: x{60}\.\.\.x{55}.yaml; a recipe is a name"):
        config_of("x" * 5000 + ".yaml")


def test_a_yaml_file_of_bytes_that_are_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("recipe: text-lstm # café".encode("latin1"))
    with pytest.raises(UserError, match="latin.yaml: this is not YAML that can be read"):
        config_of(str(path))


def test_overriding_leaves_the_settings_given_alone() -> None:
    settings = {"model": {"family": "gpt", "dim": 3}}
    assert override(settings, ["model.dim=4"]) == {"model": {"family": "gpt", "dim": 4}}
    assert settings == {"model": {"family": "gpt", "dim": 3}}
