import math

import pytest
import torch

from clew.core.config import build_part, part_name
from clew.data.plans import varied_stream_plan
from clew.layers.dropouts import LockedDropout
from clew.recipes import RECIPES
from clew.recipes.resolving import config_of
from clew.runs.build import build_body, build_task, train_tokenizer
from clew.sources.readers import LINES, PICTURES, SOUNDS, AnyReader
from clew.sources.tokens import Tokens
from clew.tasks import TASKS
from clew.tasks.language_model import LanguageModel
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_character
from clew.training.run import check_training
from tests.runs.small import TEXT

TOKENIZER = train_character([TEXT])
SMALL = {
    "recurrent": ["model.dim=8", "model.embedding_dim=8", "model.last_dim=8"],
    "elmo": ["model.dim=8", "embedding.characters_dim=8"],
    "bert": ["model.num_layers=1"],
    "gpt": ["model.num_layers=1"],
    "llama": ["model.num_layers=1", "model.hidden_dim=64"],
    "transformer": ["model.num_layers=1"],
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_complete_config_that_can_be_built(name: str) -> None:
    config = config_of(name)
    assert config.recipe == name
    check_training(config.training)
    small = config_of(name, SMALL.get(config.model.family, []))
    tokenizer = train_tokenizer(small.text, [TEXT], ["<eos>"])
    kinds = TASKS[small.task.name].vocabularies
    labels = Labels([getattr(small.task, "positive", None) or "a", "b"])
    vocabularies = {role: tokenizer if kind is Tokenizer else labels for role, kind in kinds.items()}
    if hasattr(small.task, "input"):  # the reader of inputs other than text
        readers = {**SOUNDS, **LINES, **PICTURES}
        reader = build_part(
            "reader", small.task.input, readers, **({"rate": 8000} if part_name(small.task.input) in SOUNDS else {})
        )
        vocabularies |= {role: reader for role, kind in kinds.items() if kind is AnyReader}
    assert sum(parameter.numel() for parameter in build_task(small, vocabularies).parameters()) > 0


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_evaluates_at_least_once_and_has_a_description(name: str) -> None:
    config, recipe = config_of(name), RECIPES[name]
    assert config.training.evaluate_every <= config.training.steps
    assert recipe.about.endswith(".") and len(recipe.about) < 100


@pytest.mark.parametrize("name", [name for name in RECIPES if config_of(name).model.family == "gpt"])
def test_a_window_fits_into_the_learnt_positions(name: str) -> None:
    config = config_of(name)
    assert config.training.length <= config.model.max_length


@pytest.mark.parametrize(("name", "millions"), [("gpt2", 124.4), ("gpt2-medium", 354.8), ("llama-1b", 1235.8)])
def test_pretraining_models_have_the_published_number_of_parameters(name: str, millions: float) -> None:
    config = config_of(name)
    with torch.device("meta"):
        body = build_body(config, Tokens(config.text.size or 0))
    assert config.task.tied and not config.task.bias
    assert sum(p.numel() for p in body.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)


@pytest.mark.parametrize(("name", "epochs", "length"), [("small", 13, 20), ("medium", 39, 35), ("large", 55, 35)])
def test_zaremba_recipes_run_for_the_published_number_of_epochs(name: str, epochs: int, length: int) -> None:
    """The treebank has 929,589 training words, read in 20 streams, with one evaluation per epoch."""
    training = config_of(f"ptb-lstm-{name}").training
    batches = math.ceil((929_589 - 1) // 20 / length)
    assert (training.steps, training.evaluate_every, training.length) == (epochs * batches, batches, length)


def test_zaremba_sums_are_converted_to_means() -> None:
    """A learning rate of 1 and a norm of 5 for a loss summed over 20 steps are 20 and 1/4 for its mean."""
    training = config_of("ptb-lstm-small").training
    assert (training.learning_rate, training.clip_norm) == (20.0, 0.25)


def test_the_merity_recipe_runs_for_500_epochs_of_varied_chunks() -> None:
    training = config_of("ptb-awd-lstm").training
    chunks = [
        varied_stream_plan(929_589, training.batch_size, training.length, 1, epoch).num_batches for epoch in range(20)
    ]
    assert training.evaluate_every == pytest.approx(sum(chunks) / len(chunks), rel=0.005)
    assert training.steps == 500 * training.evaluate_every


def test_the_merity_model_has_24_million_parameters() -> None:
    """The published number is 24,221,600: torch's LSTM has two biases where one is enough."""
    config = config_of("ptb-awd-lstm")
    with torch.device("meta"):
        task = LanguageModel(build_body(config, Tokens(10_000)), TOKENIZER, config.task)
    assert sum(p.numel() for p in task.parameters()) == 24_221_600 - 4 * (1150 + 1150 + 400)


def test_the_merity_recipe_applies_its_dropouts() -> None:
    config = config_of("ptb-awd-lstm", ["model.dim=8", "model.embedding_dim=4", "model.last_dim=4"])
    task = build_task(config, {"tokenizer": TOKENIZER})
    layers = task.body.layers.layers
    drops = [task.body.embedding.dropout, *(layer.dropout for layer in layers), task.dropout]
    assert [drop.p for drop in drops] == [0.4, 0.25, 0.25, 0.0, 0.4]
    assert all(isinstance(drop, LockedDropout) for drop in drops)
    assert task.body.embedding.word_dropout == 0.1
    assert all(layer.layer.cell.weight_drop == 0.5 for layer in layers)


def test_recurrent_recipes_have_similar_numbers_of_parameters() -> None:
    text = "".join(chr(33 + i) for i in range(65)) * 2
    counts = []
    for cell in ("elman", "lstm", "gru"):
        config = config_of(f"shakespeare-{cell}")
        counts.append(
            sum(p.numel() for p in build_task(config, {"tokenizer": train_tokenizer(config.text, [text])}).parameters())
        )
    assert max(counts) / min(counts) < 1.01
