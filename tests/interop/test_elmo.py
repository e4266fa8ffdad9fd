"""Imported ELMo models of AllenNLP agree with its equations in NumPy."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clew.cli.main import main
from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.runs.loaded import load_run
from clew.sources.tokens import Tokens
from clew.tasks.uses.text_vectors import TextVectors
from tests.references.elmo import carried_levels, levels

h5py = pytest.importorskip("h5py")

OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 4,
        "cell_clip": 0.6,
        "proj_clip": 0.5,
        "dim": 6,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 3], [3, 4]],
        "n_highway": 2,
        "embedding": {"dim": 3},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def make(folder: Path, **shape_changes: Any) -> dict[str, Any]:
    draw = np.random.default_rng(4)
    dim, cell_dim, letter_dim, num_filters = 4, 6, 3, 7
    shapes: dict[str, tuple[int, ...]] = {
        "char_embed": (261, letter_dim),
        "CNN_proj/W_proj": (num_filters, dim),
        "CNN_proj/b_proj": (dim,),
    }
    for number, (width, count) in enumerate([(1, 3), (3, 4)]):
        shapes |= {f"CNN/W_cnn_{number}": (1, width, letter_dim, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(2):
        for part in ("transform", "carry"):
            shapes |= {
                f"CNN_high_{number}/W_{part}": (num_filters, num_filters),
                f"CNN_high_{number}/b_{part}": (num_filters,),
            }
        for direction in range(2):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            shapes |= {
                f"{name}/W_0": (2 * dim, 4 * cell_dim),
                f"{name}/B": (4 * cell_dim,),
                f"{name}/W_P_0": (cell_dim, dim),
            }
    shapes |= shape_changes
    weights = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items() if shape}
    with h5py.File(folder / "elmo_weights.hdf5", "w") as file:
        for name, weight in weights.items():
            file[name] = weight
    (folder / "elmo_options.json").write_text(json.dumps(OPTIONS))
    return {name: weight.astype(np.float64) for name, weight in weights.items()}


def test_every_level_of_elmo_matches_its_equations(tmp_path: Path) -> None:
    weights = make(tmp_path)
    imported = import_checkpoint(tmp_path, tmp_path / "run")
    assert imported.architecture == "ELMo"
    run = load_run(tmp_path / "run", device="cpu")
    task: Any = run.task
    sentences = [["Größe", "ist", "!"], ["a", "cat", "sat", "there"], ["x" * 60]]
    batch = task.collate(task.reader.encode(sentences))
    with torch.no_grad():
        actual = torch.stack(task.body.levels(batch.inputs, batch.mask))
    for row, words in enumerate(sentences):
        expected = levels(OPTIONS, weights, words)
        assert np.abs(expected[1]).max() == pytest.approx(0.5)  # values were clipped
        np.testing.assert_allclose(actual[:, row, 1 : 1 + len(words)].numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(
        run.embed(" ".join(sentences[1])), actual[-1, 1, : 2 + len(sentences[1])].mean(0).numpy(), atol=1e-5
    )


BATCHES = [
    [["a", "cat", "sat"], ["there"], ["it", "rains", "and", "rains"]],
    [["Größe"], ["x", "y", "z", "w"]],
    [["on", "a", "mat"], ["!"], ["the", "end"], ["new", "row"]],
    [["again"], ["more", "words"], ["and"], ["last", "one", "here"]],
]


def test_states_are_carried_between_batches_as_in_allennlp(tmp_path: Path) -> None:
    """Batches vary in size: rows missing from a batch keep their state, and new rows start with zeros."""
    weights = make(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "run")
    task: Any = load_run(tmp_path / "run", device="cpu").task.double()
    expected, state = carried_levels(OPTIONS, weights, BATCHES), None
    with torch.no_grad():
        for sentences, expected_rows in zip(BATCHES, expected, strict=True):
            batch = task.collate(task.reader.encode(sentences))
            actual, state = task.body.carried_levels(batch.inputs, batch.mask, state)
            for row, words in enumerate(sentences):
                # Biases plus 1 are stored in float32.
                np.testing.assert_allclose(
                    torch.stack(actual)[:, row, 1 : 1 + len(words)].numpy(), expected_rows[row], atol=1e-6
                )
    alone = levels(OPTIONS, weights, BATCHES[1][0])
    assert np.abs(expected[1][0] - alone)[1:].max() > 0.01  # earlier text has an effect
    np.testing.assert_allclose(expected[0][0], levels(OPTIONS, weights, BATCHES[0][0]))


def test_texts_are_embedded_with_the_state_of_earlier_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = make(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "run")
    run = load_run(tmp_path / "run", device="cpu")
    sentences = [["a", "cat", "sat"], ["there"], [], ["rains", "and", "rains"], ["the", "end"]]
    expected = carried_levels(OPTIONS, weights, [sentences[:2], sentences[2:4], sentences[4:]])
    texts = [" ".join(words) for words in sentences]
    actual = run.embed(texts, tokens=True, carry=2)
    for vectors, expected_levels in zip(actual, [one for batch in expected for one in batch], strict=True):
        np.testing.assert_allclose(vectors, expected_levels[-1], atol=2e-5)
    assert not np.allclose(actual[3], run.embed(texts, tokens=True)[3], atol=0.01)
    vectors_of_level = run.embed(texts, carry=2, layer=1)
    assert not vectors_of_level[2].any() and vectors_of_level[4].any()
    text_vectors = run.text_vectors(carry=2)
    np.testing.assert_allclose(
        np.concatenate([text_vectors.of(texts[:2]), text_vectors.of(texts[2:])]), run.embed(texts, carry=2)
    )
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    assert main(["embed", "run", "--file", "lines.txt", "--carry", "2", "--out", "vectors.npy", "--device", "cpu"]) == 0
    np.testing.assert_allclose(np.load("vectors.npy"), run.embed(texts, carry=2))


def test_invalid_uses_of_carry_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "run")
    run = load_run(tmp_path / "run", device="cpu")
    with pytest.raises(UserError, match=r"carry \(0\), the number of texts read at a time, must be at least 1"):
        run.embed("a cat", carry=0)
    with pytest.raises(
        UserError,
        match="carry is for ELMo, whose states are carried from text to text"
        " in AllenNLP; this run has another body: leave it out",
    ):
        TextVectors(build_recurrent(RecurrentConfig(dim=4), Tokens(9)), run.task.reader, carry=2)
    assert main(["embed", str(tmp_path / "run"), "a", "--carry", "2", "--search", "b"]) == 2
    assert "--carry makes a text's vector depend on the texts before it" in capsys.readouterr().err


def test_mismatched_and_damaged_files_are_rejected(tmp_path: Path) -> None:
    faults: dict[str, dict[str, Any]] = {
        "has no CNN_proj/b_proj, which its options require; use the options and weights of the same model": {
            "CNN_proj/b_proj": None
        },
        "projection.weight have the shape 4 x 8, but the options require 4 x 7.*; copy both files again": {
            "CNN_proj/W_proj": (8, 4)
        },
        "has weights that clew cannot use: CNN/W_cnn_2": {"CNN/W_cnn_2": (1, 1)},
        "char_embed has the shape 262 x 3, but should have 261 rows; copy the file again": {"char_embed": (262, 3)},
        "char_embed has the shape 9999 x 99, which the model of its options cannot hold; copy both files again": {
            "char_embed": (9999, 99)
        },
    }
    for message, changed in faults.items():
        make(tmp_path, **changed)
        with pytest.raises(UserError, match=message):
            import_checkpoint(tmp_path, tmp_path / "run")
    make(tmp_path)
    path = tmp_path / "elmo_weights.hdf5"
    path.rename(tmp_path / "elsewhere")
    with h5py.File(path, "w") as file, h5py.File(tmp_path / "elsewhere", "r") as other:
        for name in other:
            file[name] = h5py.ExternalLink("elsewhere", f"/{name}")
    with pytest.raises(
        UserError, match="char_embed is stored in another file; the weights of a checkpoint must be in its own file"
    ):
        import_checkpoint(tmp_path, tmp_path / "run")
    make(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match=r"cannot be read as HDF5; it is damaged or cut short \(.*\): copy it again"):
        import_checkpoint(tmp_path, tmp_path / "run")
    options = tmp_path / "elmo_options.json"
    options.write_text(json.dumps({**OPTIONS, "lstm": {**OPTIONS["lstm"], "use_skip_connections": False}}))
    with pytest.raises(UserError, match="use_skip_connections is False; clew computes ELMo with True"):
        import_checkpoint(tmp_path, tmp_path / "run")
    options.write_text("{}")
    with pytest.raises(UserError, match="is not an options file of ELMo: KeyError .*; copy it again"):
        import_checkpoint(tmp_path, tmp_path / "run")


def with_option(section: str, name: str, value: Any) -> dict[str, Any]:
    return {**OPTIONS, section: {**OPTIONS[section], name: value}}


SIZES: dict[str, dict[str, Any]] = {
    r"the sizes and at least one filter must be whole numbers, not \[2, 3, 4, 6, 2\]; copy it again": with_option(
        "char_cnn", "filters", []
    ),
    r"must be whole numbers, not \[2, 3, '4', 6, 2, 1.*; copy it again": with_option("lstm", "projection_dim", "4"),
    r"the filters sum to projection_dim \(7\), so this model has no projection after them, which clew's ELMo needs;"
    " use a model whose filters have another sum": with_option("lstm", "projection_dim", 7),
}


@pytest.mark.parametrize("message", SIZES)
def test_sizes_that_clew_cannot_build_are_rejected(message: str, tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "elmo_options.json").write_text(json.dumps(SIZES[message]))
    with pytest.raises(UserError, match=message):
        import_checkpoint(tmp_path, tmp_path / "run")


def test_a_folder_with_two_models_is_rejected(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "other_options.json").write_text(json.dumps(OPTIONS))
    with pytest.raises(
        UserError, match=r"has 2 files \*options.json, but an ELMo model has one; keep one model per folder"
    ):
        import_checkpoint(tmp_path, tmp_path / "run")


def test_the_error_without_h5py_tells_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UserError, match=r"reading ELMo's weights \(HDF5\) needs h5py; `pip install 'clew\[elmo\]'`"):
        import_checkpoint(tmp_path, tmp_path / "run")
