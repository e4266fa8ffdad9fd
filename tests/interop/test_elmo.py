"""AllenNLP's ELMo against its equations over its own files in NumPy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.runs.loaded import load_run
from tests.references.elmo import levels

h5py = pytest.importorskip("h5py")

OPTIONS = {
    "lstm": {"use_skip_connections": True, "projection_dim": 4, "cell_clip": 0.6, "proj_clip": 0.5, "dim": 6, "n_layers": 2},
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 3], [3, 4]],
        "n_highway": 2,
        "embedding": {"dim": 3},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def make(folder: Path, **changed: Any) -> dict[str, Any]:
    draw = np.random.default_rng(4)
    dim, wide, letter, total = 4, 6, 3, 7
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, letter), "CNN_proj/W_proj": (total, dim), "CNN_proj/b_proj": (dim,)}
    for number, (width, count) in enumerate([(1, 3), (3, 4)]):
        shapes |= {f"CNN/W_cnn_{number}": (1, width, letter, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(2):
        for part in ("transform", "carry"):
            shapes |= {f"CNN_high_{number}/W_{part}": (total, total), f"CNN_high_{number}/b_{part}": (total,)}
        for direction in range(2):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            shapes |= {f"{name}/W_0": (2 * dim, 4 * wide), f"{name}/B": (4 * wide,), f"{name}/W_P_0": (wide, dim)}
    shapes |= changed
    weights = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items() if shape}
    with h5py.File(folder / "elmo_weights.hdf5", "w") as file:
        for name, weight in weights.items():
            file[name] = weight
    (folder / "elmo_options.json").write_text(json.dumps(OPTIONS))
    return {name: weight.astype(np.float64) for name, weight in weights.items()}


def test_every_level_of_elmo_is_what_its_own_files_say(tmp_path: Path) -> None:
    weights = make(tmp_path)
    done = import_checkpoint(tmp_path, tmp_path / "run")
    assert done.architecture == "ELMo"
    run = load_run(tmp_path / "run", device="cpu")
    task: Any = run.task
    sentences = [["Größe", "ist", "!"], ["a", "cat", "sat", "there"], ["x" * 60]]
    batch = task.collate(task.reader.encode(sentences))
    with torch.no_grad():
        found = torch.stack(task.body.levels(batch.inputs, batch.mask))
    for row, words in enumerate(sentences):
        expected = levels(OPTIONS, weights, words)
        assert np.abs(expected[1]).max() == pytest.approx(0.5)  # values were clipped
        np.testing.assert_allclose(found[:, row, 1 : 1 + len(words)].numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(run.embed(" ".join(sentences[1])), found[-1, 1, : 2 + len(sentences[1])].mean(0).numpy(), atol=1e-5)


def test_files_that_do_not_belong_together_are_named(tmp_path: Path) -> None:
    faults: dict[str, dict[str, Any]] = {
        "has no CNN_proj/b_proj": {"CNN_proj/b_proj": None},
        "projection.weight have the shape 4 x 8, but by the options they should have 4 x 7": {"CNN_proj/W_proj": (8, 4)},
        "has weights that clew has no place for: CNN/W_cnn_2": {"CNN/W_cnn_2": (1, 1)},
        "should have 261 rows": {"char_embed": (262, 3)},
    }
    for complaint, changed in faults.items():
        make(tmp_path, **changed)
        with pytest.raises(UserError, match=complaint):
            import_checkpoint(tmp_path, tmp_path / "run")
    make(tmp_path)
    path = tmp_path / "elmo_weights.hdf5"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match="cannot be read as HDF5"):
        import_checkpoint(tmp_path, tmp_path / "run")
    options = tmp_path / "elmo_options.json"
    options.write_text(json.dumps({**OPTIONS, "lstm": {**OPTIONS["lstm"], "use_skip_connections": False}}))
    with pytest.raises(UserError, match="use_skip_connections is False; clew computes ELMo with True"):
        import_checkpoint(tmp_path, tmp_path / "run")
    options.write_text("{}")
    with pytest.raises(UserError, match="is no file of ELMo's options"):
        import_checkpoint(tmp_path, tmp_path / "run")
