"""A label for every cell: the loss equals a loop, padding has no effect, and the command line writes label pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clew.cli.main import main
from clew.core.errors import UserError
from clew.data.examples import LabelledPixels
from clew.data.kinds.labelled_pixels import SceneShapes
from clew.data.pictures.label_pictures import read_levels
from clew.data.synthetic.scenes import SHAPES, scenes
from clew.models import MODELS
from clew.recipes.running import run_recipe
from clew.sources.picture_inputs import CellsReader
from clew.tasks.cell_labelling import CellLabeller, CellLabellingConfig, label_name, train_cell_vocabularies
from clew.text.labels import Labels
from tests.references.overlap import iou, most_frequent

NAMES = ("ground", *SHAPES)
EXAMPLES = [
    LabelledPixels(scene, SceneShapes(scene), NAMES, None, f"scene {number}")
    for number, side in enumerate((32, 41, 36))
    for scene in scenes(1, number, "train", side=side)
]


def labeller(directions=4, labels=NAMES, size=4, **model):
    torch.manual_seed(1)
    family, reader = MODELS["grid_lstm"], CellsReader(size=size)
    body = family.build(family.config(**{"dim": 8, "directions": directions, **model}), reader.source())
    return CellLabeller(body, reader, Labels(labels)).double().eval()


@pytest.mark.parametrize("directions", [1, 2, 4])
def test_the_loss_is_the_sum_over_cells_of_each_single_picture(directions):
    task = labeller(directions)
    batch = task.collate(task.encode(EXAMPLES))
    term = task(batch)[0]["loss"]
    expected = count = 0.0
    for example in EXAMPLES:
        logits = task.logits(task.collate(task.encode([example])))[0].detach().numpy()
        gold = np.ravel(most_frequent(example.pixels.levels().tolist(), 4))
        for scores, label in zip(logits, gold, strict=True):
            expected -= scores[label] - np.log(np.exp(scores).sum())
            count += 1
    assert (float(term.sum.detach()), float(term.count)) == (pytest.approx(expected), count)
    assert np.allclose(np.array(task.row_losses(batch)).sum(0), [expected, count])


def test_one_direction_depends_on_no_later_cell_and_four_on_all():
    num_changed = {}
    for directions in (1, 4):
        task = labeller(directions)
        batch = task.collate(task.encode(EXAMPLES[:1]))
        pixels = batch.inputs.pixels.clone()
        pixels[:, -1, -1] = 255 - pixels[:, -1, -1]  # the last cell
        changed = batch._replace(inputs=batch.inputs._replace(pixels=pixels))
        differs = (task.logits(batch) - task.logits(changed)).abs().amax(-1)[0] > 0
        num_changed[directions] = int(differs.sum())
    assert num_changed == {1: 1, 4: 64}


def test_measures_equal_a_loop_and_unknown_labels_count_as_wrong():
    task = labeller(labels=NAMES[:4])
    predictions = task.predict(task.collate(task.encode(EXAMPLES)))
    names = [
        NAMES[level] for example in EXAMPLES for level in np.ravel(most_frequent(example.pixels.levels().tolist(), 4))
    ]
    gold, predicted = [task.labels.find(name) for name in names], [id for row in predictions for id in row]
    measured = task.measure(EXAMPLES, predictions).values
    by_label = iou(gold, predicted, 4)
    assert measured["accuracy"] == pytest.approx(
        100 * sum(a == b for a, b in zip(gold, predicted, strict=True)) / len(gold)
    )
    assert measured["iou"] == pytest.approx(100 * sum(by_label.values()) / len(by_label))


def test_ignored_cells_are_excluded_from_measures_and_loss():
    task = labeller()
    ignoring = [EXAMPLES[0]._replace(ignored=0)]
    batch = task.collate(task.encode(ignoring))
    num_things = int((task.gold(EXAMPLES[0]) > 0).sum())
    assert 0 < int(task.counts(batch)["loss"]) <= 64 and num_things <= int(task.counts(batch)["loss"]) < 64
    assert task.right_cells(ignoring, task.predict(batch))[0][1] == int(task.counts(batch)["loss"])


def test_invalid_data_and_settings_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match="model.block merges several cells into one, and each cell needs a label; set model.block=1"
    ):
        labeller(num_layers=2, block=2)
    with pytest.raises(
        UserError,
        match="scene 0: its label picture has the number 3, and data.names has 2 names"
        ", the first for 0; name all numbers, or set data.ignored",
    ):
        label_name(EXAMPLES[0]._replace(names=("a", "b")), 3)
    with pytest.raises(
        UserError, match="every cell of the training part has the label 'ground', so there is nothing to tell apart"
    ):
        train_cell_vocabularies(None, False, [EXAMPLES[0]], CellLabellingConfig(input={"name": "cells", "size": 32}))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run on pictures with a dark left half, labelled 0, and a bright right half, labelled 1; sizes vary."""
    folder = tmp_path_factory.mktemp("halves")
    draw = np.random.default_rng(1)
    for name in ("pictures", "labels"):
        (folder / name).mkdir()
    for number in range(12):
        height, width = draw.integers(6, 12, 2)
        labels = (np.arange(width) >= width // 4 * 2).astype(np.uint8)[None].repeat(height, 0)
        pixels = draw.integers(0, 120, (height, width, 3)) + 120 * labels[..., None]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "pictures" / f"{number}.png")
        Image.fromarray(labels).save(folder / "labels" / f"{number}.png")
    data = [
        f"data.train={folder}/pictures",
        f"data.valid={folder}/pictures",
        'data.names=["dark","bright"]',
        "task.input.size=2",
    ]
    sizes = [
        "model.dim=16",
        "model.num_layers=1",
        "training.steps=60",
        "training.batch_size=6",
        "training.evaluate_every=60",
        "device=cpu",
    ]
    result = run_recipe("label-cells", [*data, *sizes, "training.learning_rate=0.02"], out=folder / "run")
    assert result.valid.measures["accuracy"] > 97 and result.valid.measures["iou"] > 94
    return folder


def test_the_command_writes_a_line_per_row_of_cells_and_a_label_picture(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(run / "pictures" / "0.png")
    assert main(["predict", str(run / "run"), file, "--label-pictures", str(run / "told")]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.strip().split("\n")]
    levels = read_levels((run / "told" / "0.png").read_bytes(), "0.png")
    with Image.open(file) as picture:
        assert levels.shape == picture.size[::-1]
    assert [[["dark", "bright"].index(name) for name in row] for row in rows] == levels[::2, ::2].tolist()
    assert main(["predict", str(run / "run"), file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == rows


def test_a_picture_is_not_overwritten_by_its_labels(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(run / "pictures" / "0.png")
    assert main(["predict", str(run / "run"), file, "--label-pictures", str(run / "pictures")]) == 2
    assert "which would be overwritten; name another" in capsys.readouterr().err


def test_a_folder_that_cannot_be_created_is_rejected(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    file = str(run / "pictures" / "0.png")
    assert main(["predict", str(run / "run"), file, "--label-pictures", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.endswith(
        "file/0.png: cannot be written: File exists; name another folder with --label-pictures\n"
    )


def test_an_evaluation_lists_the_pictures_with_the_fewest_correct_cells(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this part the two labels are swapped."""
    (run / "other").mkdir(exist_ok=True)
    for path in (run / "labels").glob("*.png"):
        Image.fromarray(1 - np.asarray(Image.open(path))).save(run / "other" / path.name)
    assert (
        main(
            [
                "evaluate",
                str(run / "run"),
                str(run / "pictures"),
                f"data.labels={run / 'other'}",
                "--errors",
                "3",
                "--json",
            ]
        )
        == 0
    )
    scored = json.loads(capsys.readouterr().out)
    errors = scored["errors"]
    assert scored["iou"] < 5 and len(errors) == 3
    assert [each["score"] for each in errors] == sorted(each["score"] for each in errors) and errors[0][
        "wrong_cells"
    ] > 0
