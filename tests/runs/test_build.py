from pathlib import Path

import pytest
import torch
from torch import nn

from clew.core.config import Section
from clew.core.devices import choose_device
from clew.core.errors import UserError
from clew.core.types import Source
from clew.data.kinds.text import find_texts
from clew.data.splits import TextPart
from clew.layers.attention import SelfAttention
from clew.layers.sequence import Stack
from clew.models import MODELS, Family
from clew.models.body import Body
from clew.recipes.resolving import config_of
from clew.runs.build import build_task, train_tokenizer
from clew.tasks.learning import Encoding
from clew.tasks.learnings.streams import Streams
from clew.text.labels import Labels
from clew.text.train import train_word
from tests.runs.small import TEXT, write_text


class TwoWayConfig(Section):
    family: str = "two_way"


def build_two_way(config: TwoWayConfig, source: Source) -> Body:
    return Body(source.embedding(4), Stack([SelfAttention(4, 1, causal=False)]))


def test_a_language_model_needs_a_causal_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "two_way", Family(TwoWayConfig, build_two_way))
    config = config_of("text-lstm", ["model.family=two_way"])
    message = (
        "the task language_model needs a body that is causal, which this two_way is not; use one of recurrent,"
        " window, gpt, llama, "
    )
    with pytest.raises(UserError, match=message):
        build_task(config, {"tokenizer": train_tokenizer(config.text, [TEXT])})


def test_the_same_seed_builds_the_same_model_without_touching_the_generator() -> None:
    config = config_of("text-lstm", ["model.dim=8", "seed=5"])
    tokenizer = train_tokenizer(config.text, [TEXT])
    state = torch.get_rng_state()
    first, second = build_task(config, {"tokenizer": tokenizer}), build_task(config, {"tokenizer": tokenizer})
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    other = build_task(config_of("text-lstm", ["model.dim=8", "seed=6"]), {"tokenizer": tokenizer})
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


def test_a_corpus_and_a_text_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=(
            "there is no training data; name your text with data.train, e.g. `clew train text-lstm data.train=book.txt`"
        ),
    ):
        find_texts(config_of("text-lstm").data)
    message = r"data.corpus and data.train exclude each other; give one of them \(data.corpus=null for your own data\)"
    with pytest.raises(UserError, match=message):
        find_texts(config_of("shakespeare-lstm", ["data.train=x.txt"]).data)
    path = write_text(tmp_path)
    parts = find_texts(
        config_of("shakespeare-lstm", ["data.corpus=null", f"data.train={path}", "data.test_fraction=0.1"]).data
    )
    assert "".join(text for part in parts.values() for text in part) == TEXT
    assert list(parts) == ["train", "valid", "test"]


def test_a_part_without_a_token_to_predict_is_rejected(tmp_path: Path) -> None:
    path = write_text(tmp_path, "twelve chars")
    config = config_of("text-lstm", [f"data.train={path}"])
    texts = find_texts(config.data)
    task = build_task(config, {"tokenizer": train_tokenizer(config.text, texts["train"])})
    with pytest.raises(UserError) as error:
        Streams().encode(
            task, TextPart(texts["train"], 0, 1), Encoding("valid", config.training, cache=tmp_path / "cache")
        )
    assert (
        str(error.value)
        == f"{path}: the valid part needs at least 2 tokens, one to read and one to predict; give more text, or change"
        " data.valid_fraction or data.test_fraction"
    )


def test_a_missing_corpus_names_the_files_and_the_folder_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = config_of("ptb-lstm-small").data
    monkeypatch.delenv("CLEW_DATA", raising=False)
    with pytest.raises(UserError) as error:
        find_texts(data)
    assert str(error.value).startswith(
        "the corpus ptb does not ship with clew; put ptb/ptb.train.txt, ptb/ptb.valid.txt, ptb/ptb.test.txt below a"
        " folder, and set CLEW_DATA to that folder; "
    )
    assert str(error.value).endswith("without it, try `clew train shakespeare-lstm`")
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    (tmp_path / "ptb").mkdir()
    for name in ("train", "valid"):
        write_text(tmp_path / "ptb", f"{name} words\n" * 9, f"ptb.{name}.txt")
    with pytest.raises(UserError, match=f"; put ptb/ptb.test.txt below CLEW_DATA \\({tmp_path}\\)"):
        find_texts(data)
    write_text(tmp_path / "ptb", "test words\n", "ptb.test.txt")
    assert "".join(find_texts(data)["test"]) == "test words\n"


def test_an_unknown_corpus_suggests_a_similar_name() -> None:
    with pytest.raises(UserError, match="unknown corpus 'tinyshakespear'; did you mean 'tinyshakespeare'"):
        find_texts(config_of("text-lstm", ["data.corpus=tinyshakespear"]).data)


def test_the_device_is_chosen_with_a_reason() -> None:
    device, reason = choose_device("cpu")
    assert (device, reason) == (torch.device("cpu"), "cpu: as requested")
    device, reason = choose_device("auto")
    assert reason.startswith(device.type)


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_an_unavailable_device_is_rejected(name: str) -> None:
    if getattr(torch, name).is_available():
        pytest.skip(f"this machine has {name}")
    with pytest.raises(
        UserError,
        match=f"device={name} needs .* GPU that torch can use, and there is none; use device=auto or device=cpu",
    ):
        choose_device(name)


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="unknown device 'gpu'; did you mean 'cpu'.* known: auto, cpu, cuda, mps"):
        choose_device("gpu")


def test_a_tied_output_layer_needs_equal_widths() -> None:
    config = config_of("text-lstm", ["model.dim=8", "model.embedding_dim=4", "task.tied=true"])
    message = (
        r"a tied output layer needs the body's width \(8\) to be the embedding's \(4\); make them equal or set"
        r" task.tied=false"
    )
    with pytest.raises(UserError, match=message):
        build_task(config, {"tokenizer": train_tokenizer(config.text, [TEXT])})


@pytest.mark.parametrize(
    "family", [name for name, family in MODELS.items() if not family.encodes and family.reads_sequence]
)
def test_every_family_builds_a_task_from_its_defaults(family: str) -> None:
    width = ["model.dim=24"] if "dim" in MODELS[family].config.model_fields else []
    task_name = {"elmo": "bidirectional_language_model", "bert": "masked_language_model"}.get(family, "language_model")
    config = config_of(
        "text-lstm", [f"model.family={family}", *width, f"task.name={task_name}", "text.tokenizer=wordpiece"]
    )
    task = build_task(config, {"tokenizer": train_tokenizer(config.text, [TEXT])})
    assert isinstance(task, nn.Module) and task.body.vocabulary == task.tokenizer.vocabulary


def test_a_language_model_rejects_an_encoder_decoder() -> None:
    config = config_of("text-lstm", ["model.family=seq2seq", "model.dim=8"])
    message = "the task language_model has no source for a seq2seq to read; use one of recurrent, window, gpt, llama, "
    with pytest.raises(UserError, match=message):
        build_task(config, {"tokenizer": train_tokenizer(config.text, [TEXT])})


def test_tasks_with_trees_need_bodies_that_read_trees_and_vice_versa() -> None:
    config = config_of("text-lstm", ["model.family=tree_lstm", "model.dim=8"])
    tokenizer = train_tokenizer(config.text, [TEXT])
    message = (
        "the task language_model has no trees for a tree_lstm to read; use one of recurrent, window, gpt, llama,"
        " (\\w+, )*elmo$"
    )
    with pytest.raises(UserError, match=message):
        build_task(config, {"tokenizer": tokenizer})
    config = config_of("gum-tree-lstm", ["model.family=recurrent", "model.dim=8"])
    message = "the task tree_classification needs a body that reads trees, which a recurrent does not; use tree_lstm$"
    with pytest.raises(UserError, match=message):
        build_task(config, {"tokenizer": tokenizer, "labels": tokenizer})


def test_a_language_model_rejects_a_body_that_reads_a_grid() -> None:
    config = config_of("text-lstm", ["model.family=grid_lstm", "model.dim=8"])
    message = (
        "the task language_model has no grid for a grid_lstm to read; use one of recurrent, window, gpt, llama,"
        " (\\w+, )*elmo$"
    )
    with pytest.raises(UserError, match=message):
        build_task(config, {"tokenizer": train_tokenizer(config.text, [TEXT])})


def test_bodies_for_graphs_need_graphs_but_node_labelling_accepts_a_chain() -> None:
    config = config_of("text-lstm", ["model.family=graph_lstm", "model.dim=8"])
    tokenizer = train_tokenizer(config.text, [TEXT])
    with pytest.raises(
        UserError,
        match="the task language_model has no graph for a graph_lstm to read; use one of recurrent, window, ",
    ):
        build_task(config, {"tokenizer": tokenizer})
    message = "the task tree_classification needs a body that reads trees, which a graph_lstm does not; use tree_lstm$"
    with pytest.raises(UserError, match=message):
        build_task(
            config_of("gum-tree-lstm", ["model.family=graph_lstm", "model.dim=8"]),
            {"tokenizer": tokenizer, "labels": tokenizer},
        )
    vocabularies = {"tokenizer": train_word([TEXT]), "labels": Labels(["a", "b"]), "edge_types": Labels(["next", "up"])}
    message = "the task node_labelling has no trees for a tree_lstm to read; use one of recurrent, (\\w+, )*graph_lstm$"
    with pytest.raises(UserError, match=message):
        build_task(config_of("label-nodes", ["model.family=tree_lstm", "model.dim=8"]), vocabularies)
    small = ["model.dim=8", "model.embedding_dim=8", "embedding.characters=null"]
    assert build_task(config_of("label-nodes", small), vocabularies).body.num_types == 3  # including the unknown type
    chain = build_task(
        config_of("label-nodes", ["model.family=recurrent", "model.bidirectional=true", *small]), vocabularies
    )
    assert not chain.reads_graphs


def test_a_vocabulary_can_be_learnt_from_the_start_of_a_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a" * 2**17 + "\n" + "b" * 2**17 + "\n" + "c")
    config = config_of("text-lstm", [f"data.train={path}", "text.learn_from=1000", "data.valid_fraction=0.001"])
    assert set("abc") & set(train_tokenizer(config.text, find_texts(config.data)["train"]).tokens) == {"a"}
