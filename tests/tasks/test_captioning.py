"""Captioning: a few drawn scenes are memorised and captioned by the command; attention is over the grid."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

import clew
from clew.cli.main import main
from clew.core.errors import UserError
from clew.data.examples import Captioned
from clew.data.synthetic.scene_texts import ground_text
from clew.data.synthetic.scenes import scenes
from clew.drawing.views import Overlays
from clew.recipes.running import run_recipe
from clew.tasks.offers import ModelInput, lacking
from tests.references import pointing

SETTINGS = ["model.dim=48", "model.embedding_dim=48", "task.input.side=32", "task.input.first_dim=8", "device=cpu"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    lines = []
    for number, (scene, text) in enumerate(zip(scenes(4, 3, "train", side=32, most=1), CAPTIONS, strict=True)):
        Image.fromarray(scene.pixels("rgb")).save(folder / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "captions": [text]}))
    for name in ("train.jsonl", "valid.jsonl"):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = [f"data.train={folder}/train.jsonl", f"data.valid={folder}/valid.jsonl"]
    steps = [
        "training.steps=80",
        "training.batch_size=4",
        "training.learning_rate=0.01",
        "training.evaluate_every=40",
        "model.dropout=0",
    ]
    run_recipe("caption", [*SETTINGS, *data, *steps], out=folder / "run")
    return folder


CAPTIONS = ("one thing alone", "a second picture", "here is the third of them", "the last")


def test_four_pictures_are_memorised_and_captioned(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(run / f"{number}.png") for number in range(4)]
    assert main(["caption", str(run / "run"), *files]) == 0
    assert capsys.readouterr().out == "".join(f"{file}\t{text}\n" for file, text in zip(files, CAPTIONS, strict=True))
    assert main(["caption", str(run / "run"), files[2]]) == 0
    assert capsys.readouterr().out == f"{CAPTIONS[2]}\n"


def test_every_word_attends_to_places_of_the_grid(run: Path) -> None:
    task = clew.load(run / "run").task
    alignment = task.aligns(ModelInput(str(run / "0.png"), target=CAPTIONS[0]))
    assert (
        alignment.source.texts[0] == "row 1, column 1"
        and len(alignment.source.texts) == task.reader.grid[0] * task.reader.grid[1]
    )
    torch.testing.assert_close(alignment.weights.sum(1), torch.ones(len(alignment.target.texts)))
    assert lacking(task, "vectors") == "reads places of an input, so it has no text vectors"


def test_a_broken_picture_is_rejected_by_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "broken.png").write_bytes((run / "0.png").read_bytes()[:50])
    for name in ("broken.png", "missing.png"):
        assert main(["caption", str(run / "run"), str(run / name)]) == 2
        assert f"{run}/{name}" in capsys.readouterr().err


def test_a_caption_is_compared_with_all_references(run: Path) -> None:
    task = clew.load(run / "run").task
    (scene,) = scenes(1, 1, "train", side=32)
    example = Captioned(scene, ("a dog", "a cat"), "one")
    assert task.measure([example], ["a cat"]).values["exact"] == 100
    assert task.measure([example], ["a bird"]).values["exact"] == 0


def test_pointing_equals_a_loop_over_words_and_pixels(run: Path, tmp_path: Path) -> None:
    task = clew.load(run / "run").task
    pictures, texts = scenes(6, 5, "valid", side=32), []
    right = words = 0
    for number, scene in enumerate(pictures):
        name = f"{tmp_path}/{number}.png"
        Image.fromarray(scene.pixels("rgb")).save(name)
        thing = scene.things[-1]
        texts.append(
            f"here is a {thing.colour} {thing.shape}" if number % 2 else f"a {thing.shape} alone one purple cross"
        )
        weights = task.aligns(ModelInput(name, target=texts[-1])).weights[:-1].numpy()
        counts = pointing.pointed(
            weights, ground_text(texts[-1], scene).things, scene.numbers(), (8, 8), (32, 32), before=4
        )
        right, words = right + counts[0], words + counts[1]
    assert task.pointed(pictures, texts) == (right, words) and words > 0
    examples = [
        Captioned(scene, (text,), str(number)) for number, (scene, text) in enumerate(zip(pictures, texts, strict=True))
    ]
    values = task.measure(examples, [*texts[:-1], "a cat"]).values
    assert values["exact"] == pytest.approx(500 / 6) and values["exact_novel"] == pytest.approx(200 / 3)
    assert values["true"] == 0 and 0 <= values["pointing"] <= 100


def test_pointing_is_not_measured_without_known_objects(run: Path) -> None:
    task = clew.load(run / "run").task
    values = task.measure([Captioned(str(run / "0.png"), ("a dog",), "one")], ["a dog"]).values
    assert values["exact"] == 100 and not {"true", "exact_novel", "pointing"} & set(values)


def test_a_flat_decoder_of_paragraphs_reads_regions(tmp_path: Path) -> None:
    data = [
        "data.size=20",
        "data.side=32",
        "data.paragraphs=true",
        "data.order=across",
        "task.input={name: regions, side: 4}",
    ]
    small = ["model.dim=16", "training.steps=1", "training.schedule.warmup=0", "decoding.max_new=4", "device=cpu"]
    values = run_recipe("scenes-captioner", [*data, *small], out=tmp_path / "run").valid.measures
    assert "true" in values and "pointing" not in values  # regions do not form a grid
    picture = next(iter(scenes(1, 3, "train", side=32, fewest=2)))
    Image.fromarray(picture.pixels("rgb")).save(tmp_path / "scene.png")
    boxes = [list(box) for box in picture.boxes()]
    view = clew.look(
        clew.load(tmp_path / "run"), "caption", text=str(tmp_path / "scene.png"), target="a circle", boxes=boxes
    )
    assert view.facts["regions"] == len(boxes) and view.facts["words"] == ["a", "circle", "<eos>"]
    overlay = view.parts[0]
    assert isinstance(overlay, Overlays) and overlay.boxes == [tuple(box) for box in boxes]
    torch.testing.assert_close(torch.tensor(view.facts["weights"]).sum(1), torch.ones(3), atol=1e-4, rtol=0)


def test_the_attention_of_each_word_is_drawn_over_the_picture(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(run / "2.png")
    assert main(["look", "caption", str(run / "run"), picture, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["caption"] == CAPTIONS[2] and facts["words"][:-1] == CAPTIONS[2].split() and facts["grid"] == [4, 4]
    aligned = clew.load(run / "run").task.aligns(ModelInput(picture, target=CAPTIONS[2])).weights
    torch.testing.assert_close(torch.tensor(facts["weights"]), aligned, atol=1e-5, rtol=0)
    assert facts["looked_at"] == aligned.argmax(1).tolist()
    for name in ("look.svg", "look.png"):
        assert main(["look", "caption", str(run / "run"), picture, "--out", f"{tmp_path}/{name}"]) == 0
    drawing = (tmp_path / "look.svg").read_text(encoding="utf-8")
    assert drawing.count("<image") - drawing.count("<mask") == len(facts["words"]) + 1 and ">third</text>" in drawing
    with Image.open(tmp_path / "look.png") as image:
        assert image.size[0] > 500


def test_the_caption_to_align_may_be_given(run: Path) -> None:
    loaded = clew.load(run / "run")
    view = clew.look(loaded, "caption", text=str(run / "0.png"), target="a second thing")
    assert view.facts["words"][:-1] == ["a", "second", "thing"]
    with pytest.raises(UserError, match="caption needs a picture; name a file: text=FILE"):
        clew.look(loaded, "caption")
    with pytest.raises(UserError, match="boxes are for models that read regions, but this model reads whole pictures"):
        clew.look(loaded, "caption", text=str(run / "0.png"), boxes=[[0, 0, 8, 8]])
