from pathlib import Path

import pytest

from clew.core.config import Section, options_of
from clew.core.errors import UserError
from clew.layers.cells import CELLS
from clew.models import MODELS
from clew.recipes.resolving import config_of
from clew.runs.config import every_field
from clew.runs.settings.explaining import read_section
from clew.runs.settings.known_names import KNOWN_NAMES
from clew.training.optimisers import OPTIMISERS
from clew.training.schedules import SCHEDULES

CELL_NAMES, FAMILY_NAMES = ", ".join(sorted(CELLS)), ", ".join(sorted(MODELS))


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (
            "training.stepps=5",
            (
                "unknown field 'stepps' of training; did you mean 'steps'? known: steps, epochs, batch_size,"
                " batch_tokens, bucket, length, batching, documents, optimiser, learning_rate, schedule, clip_norm,"
                " clip_value, "
            ),
        ),
        (
            "trainin.steps=5",
            (
                "unknown field 'trainin'; did you mean 'training'? known: recipe, seed, device, task, data, text,"
                " embedding, transfer, model, training, decoding"
            ),
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
        ("data=5", "data: data takes fields, not 5"),
        (
            "data.trian=x",
            "unknown field 'trian' of data; did you mean 'train'? known: corpus, train, valid, test, valid_fraction, ",
        ),
        (
            "data.tags=2",
            "unknown field 'tags' of data; it is read by the task tagging; known: corpus, train, valid, test, ",
        ),
        (
            "data.second=2",
            "unknown field 'second' of data; it is read by the task classification; known: corpus, train, ",
        ),
        (
            "embedding.form=x",
            "unknown field 'form' of embedding; did you mean 'from'? known: words, dim, vectors, tune, most_vectors, ",
        ),
        ("embedding.source=x", "unknown field 'source' of embedding;"),
        ("lr=0.1", "unknown field 'lr'; did you mean 'training.learning_rate'? known: recipe, seed, device, "),
        ("training.lr=0.1", "unknown field 'lr' of training; did you mean 'learning_rate'? known: steps, "),
        ("steps=10", "unknown field 'steps'; did you mean 'training.steps'?"),
        ("Batch-Size=8", "unknown field 'Batch-Size'; did you mean 'training.batch_size'?"),
        ("weight_decay=0.1", "unknown field 'weight_decay'; did you mean 'training.optimiser.weight_decay'?"),
        ("task.hidden_size=8", "unknown field 'hidden_size' of task; did you mean 'model.dim'?"),
        ("model.n_embd=8", "unknown field 'n_embd' of model; did you mean 'dim'?"),
        ("model.n_head=8", "unknown field 'n_head' of model; known: family, "),  # a recurrent family has no heads
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
            (
                "model.cell: cell 'lstm' has no option 'forget_bais'; did you mean 'forget_bias'? its options: "
                "cell_output, forget_bias, weight_drop"
            ),
        ),
        ("model.cell.forget_bias=true", "model.cell: cell option 'lstm.forget_bias' takes a number, not True"),
        ("model.cell.cell_output=3", "model.cell: cell option 'lstm.cell_output' takes a text, not 3"),
        (
            "model.cell={forget_bias: 1}",
            "model.cell: cell takes a name, or a name with options ({name: ..., option: ...}), not {'forget_bias': 1}",
        ),
        (
            "task.name=languge_model",
            "task: unknown task 'languge_model'; did you mean 'language_model'? known: bidirectional",
        ),
        (
            "text.tokenizer=wrod",
            (
                "text.tokenizer: unknown tokenizer 'wrod'; did you mean 'word'? known: bpe, character, unigram, word,"
                " wordpiece, wordpiece_likelihood"
            ),
        ),
        (
            "text.tokenizer=[a]",
            (
                "text.tokenizer: unknown tokenizer '['a']'; known: bpe, character, unigram, word, wordpiece,"
                " wordpiece_likelihood"
            ),
        ),
        ("decoding.temperature=0", "decoding.temperature must be above 0, not 0"),
        ("seed.more=1", "seed.more: seed is 1, which has no fields"),
        ("seed=9223372036854775808", "seed takes a number between -2^63 and 2^63, not 9223372036854775808"),
        (
            "model.dim=1" + "0" * 400,
            "model.dim takes a number between -2^63 and 2^63, not a number of about 398 digits",
        ),
        ("task.init_scale=1e308", "task.init_scale takes a number between -1e38 and 1e38, not 1e+308"),
        ("model.num_layers=1000000000", "model.num_layers must be at most 1000, not 1000000000"),
        (
            "model.cell.forget_bias=1" + "0" * 40,
            "model.cell: cell option 'lstm.forget_bias' takes a number between -2^63 and 2^63, not a",
        ),
        (
            "training.optimiser=5",
            "training.optimiser: optimiser takes a name, or a name with options ({name: ..., option: ...}), not 5",
        ),
        ("training.schedule={warmup: 3}", "training.schedule: schedule takes a name, or a name with options"),
        ("mod\x1b[31mel.dim=5", "unknown field 'mod\\x1b[31mel'; did you mean 'model'?"),
        (
            "training.precision=" + "x" * 9999,
            "training.precision must be one of 'auto', 'float32', 'tf32' or 'bfloat16', not 'xxxxxxxxxxxxxxxxxxxxx",
        ),
        ("training.steps", "a setting is section.field=value, such as training.steps=500, not 'training.steps'"),
        ("=5", "a setting is section.field=value, such as training.steps=500, not '=5'"),
        ("training..steps=5", "a setting is section.field=value, such as training.steps=500, not 'training..steps=5'"),
        (
            "model.layers=[lstm, {name",
            "'[lstm, {name' starts like a list or a mapping but is not one; write it as [a, b] or {name: value}",
        ),
    ],
)
def test_mistaken_settings_are_reported_in_one_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        config_of("text-lstm", [assignment])
    assert str(error.value).startswith(sentence)
    assert str(error.value).isprintable() and len(str(error.value)) < 400


def test_every_known_name_stands_for_an_existing_field() -> None:
    parts = {"training.optimiser": OPTIMISERS, "training.schedule": SCHEDULES}
    options = {
        f"{field}.{option}"
        for field, table in parts.items()
        for member in table.values()
        for option in options_of(member)
    }
    assert KNOWN_NAMES.keys() <= every_field() | options


def test_a_known_name_stands_for_one_field() -> None:
    names = [name for names in KNOWN_NAMES.values() for name in names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (
            "model.layers=[]",
            "model.layers: layers takes a list with at least one layer, such as [lstm, {name: attention, window: 64}]",
        ),
        ("model.layers=[lstm, atention]", "model.layers: unknown layer 'atention'; did you mean 'attention'?"),
        (
            "model.layers=[{name: attention, windw: 3}]",
            "model.layers: layer 'attention' has no option 'windw'; did you mean 'window'?",
        ),
        ("model.wiring=highwy", "model.wiring: unknown wiring 'highwy'; did you mean 'highway'?"),
    ],
)
def test_mistakes_in_a_list_of_layers_are_reported_in_one_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        config_of("text-lstm", ["model.family=mixed", assignment])
    assert str(error.value).startswith(sentence)


class Lists(Section):
    several: tuple[int, ...] | None = None
    words: list[str] | None = None
    text: str = ""


def test_a_list_is_converted_only_for_a_tuple_field():
    section = read_section(Lists, {"several": [1, 2], "words": ["a"]})
    assert section.several == (1, 2) and section.words == ["a"]
    with pytest.raises(UserError, match="^several takes a list, not 'a'$"):
        read_section(Lists, {"several": "a"})
    with pytest.raises(UserError, match=r"^cost: text takes a text, not \['a'\]$"):
        read_section(Lists, {"text": ["a"]}, "cost")


def test_a_file_without_its_setting_is_suggested_as_training_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, setting in (("tickets.csv", "data.train=tickets.csv"), ("my tickets.csv", "'data.train=my tickets.csv'")):
        Path(name).touch()
        with pytest.raises(UserError, match=f"500, not '{name}'; to train on this file, write {setting}$"):
            config_of("classify", [name])
