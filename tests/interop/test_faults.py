"""Faulty checkpoints are reported in one line, and nothing is written."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.runs.folder.run_files import CONFIG
from clew.runs.loaded import load_run
from tests.interop.checkpoints import make

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture(scope="module")
def intact_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "tiny"
    make("BertForMaskedLM", folder)
    return folder


@pytest.fixture
def folder(intact_folder: Path, tmp_path: Path) -> Path:
    copied = tmp_path / "tiny"
    copied.mkdir()
    for path in intact_folder.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    return copied


def fields(**changed: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.loads((folder / CONFIG).read_text())
        content = {name: value for name, value in {**content, **changed}.items() if value != "gone"}
        (folder / CONFIG).write_text(json.dumps(content))

    return change


def tensors(**changed: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = {**load_file(folder / WEIGHTS), **{name.replace("__", "."): value for name, value in changed.items()}}
        save_file({name: value for name, value in content.items() if value is not None}, folder / WEIGHTS)

    return change


def index(name: str, *, link: bool = False) -> Callable[[Path], None]:
    """Move the tensors into a shard that the index lists under this name."""

    def change(folder: Path) -> None:
        names = list(load_file(folder / WEIGHTS))
        (folder / WEIGHTS).rename(folder.parent / "elsewhere.safetensors" if link else folder / "shard.safetensors")
        if link:
            os.symlink(folder.parent / "elsewhere.safetensors", folder / name)
        (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(names, name)}))

    return change


def two_shards(folder: Path) -> None:
    """Write two shards that both contain every tensor."""
    names = list(load_file(folder / WEIGHTS))
    for shard in ("1.safetensors", "2.safetensors"):
        (folder / shard).write_bytes((folder / WEIGHTS).read_bytes())
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(
        json.dumps({"weight_map": {names[0]: "1.safetensors", **dict.fromkeys(names[1:], "2.safetensors")}})
    )


def index_of_an_absent_tensor(folder: Path) -> None:
    """Write an index that lists one tensor more than the shard contains."""
    names = [*load_file(folder / WEIGHTS), "bert.gate"]
    (folder / WEIGHTS).rename(folder / "shard.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(names, "shard.safetensors")}))


def file(name: str, content: bytes | None, *, without: str = "") -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        if without:
            (folder / without).unlink()
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)

    return change


def truncate(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])


def fifo(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def link(name: str) -> Callable[[Path], None]:
    """Replace a file of the folder by a link to a file outside."""

    def change(folder: Path) -> None:
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)

    return change


def sparse(folder: Path) -> None:
    """Write a sparse weights file with a tensor of one terabyte."""
    head = json.dumps({"cls.predictions.bias": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}}).encode()
    with (folder / WEIGHTS).open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + 2**40)


BIAS = "cls__predictions__bias"
FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing field": (
        fields(hidden_size="gone"),
        r"config.json has no field hidden_size, which the model requires; add it, or copy the file again",
    ),
    "a field of another kind": (fields(hidden_size="16"), r"hidden_size takes a whole number, not '16'"),
    "no size": (fields(num_hidden_layers=0), r"num_hidden_layers must be at least 1, not 0"),
    "fields that contradict each other": (
        fields(num_attention_heads=3),
        r"hidden_size \(16\) must be divisible by num_attention_heads \(3\)",
    ),
    "another kind of position": (
        fields(position_embedding_type="relative_key"),
        r"position_embedding_type is 'relative_key'; clew supports only 'absolute' for this architecture",
    ),
    "a decoder": (fields(is_decoder=True), r"is_decoder is True; clew supports only False for this architecture"),
    "another activation": (
        fields(hidden_act="quick_gelu"),
        r"hidden_act is 'quick_gelu'; clew knows gelu, gelu_python",
    ),
    "an unknown architecture": (
        fields(architectures=["T5Model"]),
        r"clew does not know the architecture 'T5Model'; it knows Bert",
    ),
    "fewer layers than tensors": (
        fields(num_hidden_layers=1),
        r"16 tensors that clew cannot use: bert.encoder.layer.1",
    ),
    "more layers than tensors": (
        fields(num_hidden_layers=3),
        r"has no tensor bert.encoder.layer.2.attention.self.query.weight, which its config requires"
        r"; copy the checkpoint again",
    ),
    "a tensor of another shape": (
        tensors(**{BIAS: torch.zeros(7)}),
        r"cls.predictions.bias has the shape 7, but its config requires 54",
    ),
    "a tensor too many": (
        tensors(bert__gate=torch.zeros(2)),
        r"1 tensor that clew cannot use: bert.gate; the model computes more than its architecture says",
    ),
    "a tensor too few": (tensors(**{BIAS: None}), r"has no tensor cls.predictions.bias"),
    "a tied weight that is another": (
        tensors(cls__predictions__decoder__weight=torch.ones(54, 16)),
        r"cls.predictions.decoder.weight and bert.embeddings.word_embeddings.weight differ, though config.json says"
        r" that they are tied \(tie_word_embeddings\); set that field to false, or save the checkpoint again",
    ),
    "a tensor of eight bits": (
        tensors(**{BIAS: torch.zeros(54).to(torch.float8_e4m3fn)}),
        r"cls.predictions.bias has the type F8_E4M3; clew reads BF16, F16, F32, F64",
    ),
    "weights that are whole numbers": (
        tensors(**{BIAS: torch.zeros(54, dtype=torch.int8)}),
        r"cls.predictions.bias are quantised \(int8\)",
    ),
    "quantised weights": (
        fields(quantization_config={"bits": 4}),
        r"the weights are quantised \(quantization_config\), which clew cannot read; use a checkpoint in floats",
    ),
    "a file cut short": (truncate, r"model.safetensors cannot be read as safetensors .* copy it again"),
    "no config": (file(CONFIG, None), r"is not a checkpoint that clew knows"),
    "a config that is no JSON": (file(CONFIG, b"{"), r"config.json is not JSON"),
    "a config that is a list": (file(CONFIG, b"[]"), r"config.json should hold a JSON object, not \[\]"),
    "no weights": (
        file(WEIGHTS, None),
        r"has no model.safetensors, and no model.safetensors.index.json with shards; copy the weights into it",
    ),
    "a pickle": (
        file("pytorch_model.bin", b"\x80\x02", without=WEIGHTS),
        r"may be a pickle, .*transformers.BertForMaskedLM.from_pretrained\(sys.argv\[1\]\).* .*tiny$",
    ),
    "a pickle whose class is code": (
        lambda folder: [
            file("pytorch_model.bin", b"\x80\x02", without=WEIGHTS)(folder),
            fields(architectures=["x; exec"])(folder),
        ],
        r"may be a pickle, .*if you trust it, load it with the program that wrote it",
    ),
    "no tokenizer": (
        file("tokenizer.json", None),
        r"has no tokenizer, which a run needs to read texts; clew reads .*: save one in the same folder",
    ),
    "a damaged tokenizer": (file("tokenizer.json", b'{"version": 1}'), r"tokenizer.json: not a tokenizer file"),
    "a smaller vocabulary": (
        fields(vocab_size=30),
        r"the tokenizer has 54 tokens, but the model has 30 \(vocab_size\); use its own",
    ),
    "an index of an absent tensor": (
        index_of_an_absent_tensor,
        r"shard.safetensors has no tensor bert.gate, which model.safetensors.index.json lists; copy the shards again",
    ),
    "an index without a map": (
        file(INDEX, b"{}", without=WEIGHTS),
        r"has no weight_map from tensors to files; copy it again",
    ),
    "a tensor in two shards": (two_shards, r"2.safetensors: the tensor \S+ is also in 1.safetensors; copy the"),
    "a label without a name": (
        fields(architectures=["BertForSequenceClassification"], id2label={"0": "a", "2": "b"}),
        r"id2label must name the labels 0 to 1, not {'0': 'a', '2': 'b'}; copy it again, or give every label a name",
    ),
    "two labels of one name": (
        fields(architectures=["BertForSequenceClassification"], id2label={"0": "a", "1": "a"}),
        r"id2label has a name twice: {'0': 'a', '1': 'a'}; give every label its own",
    ),
    "a rate of dropout above 1": (
        fields(hidden_dropout_prob=1.5),
        r"tiny: clew cannot build a model with the checkpoint's settings: model.dropout must be below 1, not 1.5",
    ),
    "an unknown kind of answer": (
        fields(architectures=["BertForSequenceClassification"], problem_type="ranking"),
        r"config.json: problem_type is 'ranking'; known: single_label_classification, multi_label_classification,"
        r" regression",
    ),
    "a regression of several numbers": (
        fields(architectures=["BertForSequenceClassification"], problem_type="regression"),
        r"the model predicts 2 numbers per text, but clew predicts one; use a model with one label",
    ),
    "a shard that is missing": (
        index("other.safetensors"),
        r"names other.safetensors, which is missing; copy all shards of the checkpoint",
    ),
    "a path above": (index("../elsewhere.safetensors"), r"names '../elsewhere.safetensors', which is outside"),
    "an absolute path": (index("/etc/passwd"), r"names '/etc/passwd', which is outside"),
    "a vocabulary of a million millions": (
        fields(vocab_size=10**12),
        r"vocab_size \(1000000000000\) is above 54: no side of any tensor of the checkpoint is as long; copy the"
        " checkpoint again",
    ),
    "a width of a thousand millions": (
        fields(hidden_size=10**9, num_attention_heads=1),
        r"hidden_size \(1000000000\) is above 54",
    ),
    "a network of a thousand millions": (
        fields(intermediate_size=10**9),
        r"intermediate_size \(1000000000\) is above 54",
    ),
    "a thousand million layers": (fields(num_hidden_layers=10**9), r"num_hidden_layers \(1000000000\) is above 54"),
    "a thousand million positions": (
        fields(max_position_embeddings=10**9),
        r"max_position_embeddings \(1000000000\) is above 16,777,216: clew reads texts of at most that many tokens",
    ),
    "a number of a thousand digits": (
        fields(vocab_size=10**1000),
        r"vocab_size \(a number of about 996 digits\) is above 54",
    ),
    "a number too large for a float": (
        fields(layer_norm_eps=10**400),
        r"layer_norm_eps takes a number, not a number of about 398 digits",
    ),
    "a pipe for weights": (fifo(WEIGHTS), r"has no model.safetensors, and no model.safetensors.index.json"),
    "a pipe for a tokenizer": (fifo("tokenizer.json"), r"has no tokenizer, which a run needs"),
    "weights of a terabyte": (
        sparse,
        r"cannot be read as safetensors|has no tensor bert.embeddings.word_embeddings.weight",
    ),
    "a config that is a link": (link(CONFIG), r"names 'config.json', which is outside "),
    "a tokenizer that is a link": (link("tokenizer.json"), r"names 'tokenizer.json', which is outside "),
    "a link that leaves": (index("link.safetensors", link=True), r"names 'link.safetensors', which is outside"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_reported_in_one_line_and_nothing_is_written(fault: str, folder: Path, tmp_path: Path) -> None:
    change, message = FAULTS[fault]
    change(folder)
    with pytest.raises(UserError, match=message) as error:
        import_checkpoint(folder, tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists() and not (tmp_path / "run.partial").exists()


def test_half_precision_and_old_names_are_read(folder: Path, tmp_path: Path) -> None:
    content = load_file(folder / WEIGHTS)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
        for name, t in content.items()
    }
    old = {name.removeprefix("bert."): tensor.to(torch.bfloat16) for name, tensor in old.items()}
    old["embeddings.position_ids"] = torch.arange(40)[None]
    save_file(old, folder / WEIGHTS)
    import_checkpoint(folder, tmp_path / "run")
    norm_weight = load_file(tmp_path / "run" / WEIGHTS)["body.embedding.norm.weight"]
    assert norm_weight.dtype == torch.float32 and norm_weight.equal(
        content["bert.embeddings.LayerNorm.weight"].to(torch.bfloat16).float()
    )


def test_a_padded_vocabulary_is_kept(tmp_path: Path) -> None:
    make("GPT2LMHeadModel", tmp_path / "theirs")
    content = load_file(tmp_path / "theirs" / WEIGHTS)
    content["transformer.wte.weight"] = torch.cat([content["transformer.wte.weight"], torch.zeros(4, 16)])
    save_file(content, tmp_path / "theirs" / WEIGHTS)
    fields(vocab_size=len(content["transformer.wte.weight"]))(tmp_path / "theirs")
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert imported.vocabularies["tokenizer"].vocabulary == len(content["transformer.wte.weight"])
    assert imported.vocabularies["tokenizer"].tokens[-1].startswith("<unused")


def test_pairs_are_only_for_classifiers(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="tiny: only a classifier reads two texts together, and this is a BertForMaskedLM; leave pairs=True out",
    ):
        import_checkpoint(folder, tmp_path / "run", pairs=True)


def test_an_existing_folder_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    import_checkpoint(folder, tmp_path / "run")
    with pytest.raises(UserError, match="run is a run already; choose another folder"):
        import_checkpoint(folder, tmp_path / "run")
    with pytest.raises(UserError, match="is already a run of clew; use it directly"):
        import_checkpoint(tmp_path / "run", tmp_path / "again")
    with pytest.raises(UserError, match="full exists and is not an empty folder"):
        (tmp_path / "full" / "of").mkdir(parents=True)
        import_checkpoint(folder, tmp_path / "full")
    with pytest.raises(UserError, match="tiny is a Hugging Face checkpoint; `clew import .*tiny` converts it to a run"):
        load_run(folder)


def test_a_snapshot_in_the_hub_cache_is_read_through_its_links(
    intact_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "models--someone--tiny"
    snapshot, blobs = model / "snapshots" / "0a1b", model / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(intact_folder.iterdir()):
        (blobs / str(number)).write_bytes(path.read_bytes())
        os.symlink(Path("..") / ".." / "blobs" / str(number), snapshot / path.name)
    monkeypatch.chdir(tmp_path)
    assert import_checkpoint(snapshot).folder == Path("runs/someone-tiny")
