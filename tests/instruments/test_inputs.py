"""Instruments on pictures, sounds and graphs: attributions against finite differences, their location, and names of
positions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import clew
from clew.cli.main import main
from clew.core.batches import map_batch
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.data.sounds.sound_files import Sound
from clew.data.synthetic.scenes import scenes
from clew.drawing.png import png
from clew.drawing.views import Grid, Heatmap, Lines
from clew.inspection.attribution import input_x_gradient, integrated_gradients, occlusion
from clew.inspection.recording import record
from clew.instruments.subjects.recurrent_layers import recurrent_layers
from clew.layers.shapes.grid_lstm import GridLSTM
from clew.models import MODELS
from clew.recipes.running import run_recipe
from clew.runs.loaded import Run
from clew.serving.inspector import Inspector, LookRequest, StepRequest
from clew.sources.picture_inputs import PatchesReader
from clew.sources.sounds import LogMelReader
from clew.tasks.offers import ModelInput
from clew.tasks.picture_classification import PictureClassificationConfig, PictureClassifier
from clew.tasks.transcription import Transcriber, TranscriptionConfig
from clew.tasks.uses.explaining import Explained
from clew.text.labels import Labels
from clew.text.train import train_character
from tests.runs.frozen.inputs import CORNERS, SQUARE, dependencies, things

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Run]]:
    """Load stored runs by the names of their tasks; files are named relative to their folder."""
    monkeypatch.chdir(FROZEN)
    yield lambda name: clew.load(f"{name}/run", device="cpu")
    assert os.getcwd() == str(FROZEN)


def picture_case() -> Explained:
    """The logit of a class as a function of the pixels of a drawn scene, in float64."""
    torch.manual_seed(0)
    reader, family = PatchesReader(side=12, size=5), MODELS["recurrent"]
    body = family.build(family.config(cell="lstm", dim=6), reader.source())  # type: ignore[call-arg]
    task = PictureClassifier(body, reader, Labels(("a", "b", "c")), PictureClassificationConfig()).double().eval()
    return task.explains(ModelInput(scenes(1, 1, "train", side=32)[0]), "b")  # type: ignore[arg-type]


def sound_case(place: int | None = None) -> Explained:
    """log p of a text as a function of the bands and frames of a sound, in float64."""
    torch.manual_seed(0)
    reader, family = LogMelReader(rate=4000, num_mels=6, stack=2, deltas=1), MODELS["recurrent"]
    body = family.build(family.config(cell="gru", dim=6, bidirectional=True), reader.source())  # type: ignore[call-arg]
    task = Transcriber(body, reader, train_character(["ab"]), TranscriptionConfig()).double().eval()
    return task.explains(ModelInput(Sound(torch.randn(600), 4000)), "ab", place)  # type: ignore[arg-type]


CASES = {"a picture": picture_case, "a sound": sound_case, "a symbol": lambda: sound_case(2)}


@pytest.mark.parametrize("case", CASES)
def test_input_times_gradient_equals_finite_differences(case: str) -> None:
    explained, step = CASES[case](), 1e-5
    x = explained.vectors()
    assert x.dtype == torch.float64
    attribution = input_x_gradient(explained.of_vectors, x)
    assert attribution.entries is not None and attribution.entries.shape == x.shape
    generator = torch.Generator().manual_seed(1)
    for place in torch.randint(x.numel(), (25,), generator=generator).tolist():
        moved = torch.zeros(x.numel(), dtype=torch.float64)
        moved[place] = step
        moved = moved.view_as(x)
        with torch.no_grad():
            above, below = explained.of_vectors(torch.stack([x + moved, x - moved])).tolist()
        slope = (above - below) / (2 * step)
        assert attribution.entries.flatten()[place].item() == pytest.approx(
            x.flatten()[place].item() * slope, rel=1e-5, abs=1e-9
        )


@pytest.mark.parametrize("case", CASES)
def test_integrated_gradients_of_an_input_are_complete_and_summed_by_position(case: str) -> None:
    explained = CASES[case]()
    x, canvas = explained.vectors(), explained.canvas
    assert canvas is not None
    attribution = integrated_gradients(explained.of_vectors, x, torch.zeros_like(x), 400)
    assert attribution.entries is not None and attribution.baseline is not None
    assert abs(attribution.gap or 0.0) < 1e-4
    total = float(attribution.entries.sum())
    by_place = canvas.by_place(attribution.entries)
    assert len(by_place) == len(explained.tokens)
    assert (
        float(by_place.sum())
        == pytest.approx(total)
        == pytest.approx(attribution.score - attribution.baseline, abs=1e-4)
    )
    spread = canvas.spread(attribution.entries)
    assert spread.shape == canvas.backdrop.shape[:2]
    if case == "a picture":
        np.testing.assert_allclose(spread, attribution.entries.sum(-1))
        place = 4  # in the middle of three rows and columns of patches; the last ones are incomplete
        assert float(by_place[place]) == pytest.approx(float(spread[5:10, 5:10].sum()))


def test_a_map_of_a_sound_has_each_band_at_its_frame_despite_stacking() -> None:
    reader = LogMelReader(rate=4000, num_mels=6, stack=2, deltas=1)
    canvas = reader.canvas(Sound(torch.randn(600), 4000))
    frames = 1 + (600 - 100) // 40
    assert canvas.backdrop.shape == (6, frames) and canvas.columns[3] == "0.03" and len(canvas.rows) == 6
    entries = torch.zeros(7, 24)
    entries[2, 12 + 1] = 1.0  # position 2 is frames 4 and 5; this is band 1, the second lowest, of frame 5
    entries[2, 12 + 6 + 1] = 0.5  # and its difference over time
    expected = torch.zeros(6, frames)
    expected[6 - 1 - 1, 5] = 1.5
    assert torch.equal(canvas.spread(entries), expected)


def test_a_patch_is_occluded_as_a_whole() -> None:
    explained = picture_case()
    x, canvas = explained.vectors(), explained.canvas
    assert canvas is not None and canvas.grid == (3, 3)
    attribution = occlusion(explained.of_vectors, x, torch.zeros_like(x), canvas.cells)
    hidden = x.clone()
    hidden[5:10, 10:12] = 0.0
    with torch.no_grad():
        whole, without = explained.of_vectors(torch.stack([x, hidden])).tolist()
    assert attribution.values[5].item() == pytest.approx(whole - without)


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion"])
def test_a_classifier_of_colours_attributes_to_the_square(frozen: Callable[[str], Run], method: str) -> None:
    """In every picture the mean attribution is larger on pixels of the object than elsewhere."""
    run = frozen("picture_classification")
    for number, (colour, corner) in enumerate(things()[:6]):
        view = clew.look(run, "attribution", text=f"picture_classification/{number}.png", of=colour, method=method)
        strength = np.abs(view.facts["map"])
        strength = np.kron(strength, np.ones((16 // len(strength), 16 // len(strength))))
        row, column = CORNERS[corner]
        is_object = np.zeros((16, 16), dtype=bool)
        is_object[row : row + SQUARE, column + number % 3 : column + number % 3 + SQUARE] = True
        assert strength[is_object].mean() > 4 * strength[~is_object].mean(), (number, colour)


@pytest.mark.slow
def test_a_classifier_of_scenes_attributes_to_the_object(tmp_path: Path) -> None:
    """On held-out scenes, whose objects are known pixel by pixel."""
    settings = [
        "data={corpus: scenes, size: 400, side: 32, about: colour}",
        "task.input={name: patches, side: 32, size: 4}",
    ]
    settings += [
        "model={family: bag, dim: 32}",
        "training.steps=300",
        "training.evaluate_every=150",
        "training.learning_rate=0.01",
    ]
    run_recipe("classify-pictures", [*settings, "training.batch_size=32", "device=cpu"], out=tmp_path / "run")
    run = clew.load(tmp_path / "run", device="cpu")
    shares = []
    for number, scene in enumerate(scenes(20, 7, "train", side=32, most=1)):
        file = tmp_path / f"{number}.png"
        file.write_bytes(png(scene.pixels("rgb")))
        strength = np.abs(clew.look(run, "attribution", text=str(file), of=scene.things[0].colour).facts["map"])
        is_object = scene.numbers() > 0
        shares.append(strength[is_object].mean() / strength[~is_object].mean())
    assert np.median(shares) > 10 and min(shares) > 2, shares


def test_the_page_reads_no_file_named_in_a_request(frozen: Callable[[str], Run]) -> None:
    inspector = Inspector([frozen("captioning")])
    (name,) = inspector.runs
    refused = (
        "captioning/run reads files, and the page only uploaded ones; choose one there, or use `clew look"
        " attribution cap"
    )
    with pytest.raises(UserError, match=refused):
        inspector.look("attribution", LookRequest(runs=(name,), options={"text": "captioning/0.png"}))
    with pytest.raises(UserError, match="the page only uploaded ones"):
        inspector.step(StepRequest(runs=(name,), text="captioning/0.png"))
    assert inspector.look("curves", LookRequest(runs=(name,)))["title"] == "Learning curves"


def test_an_attribution_over_a_picture_is_drawn_over_it(frozen: Callable[[str], Run], tmp_path: Path) -> None:
    for name, file in (("picture_classification", "0.png"), ("captioning", "0.png"), ("transcription", "3.wav")):
        view = clew.look(frozen(name), "attribution", text=f"{name}/{file}", steps=4)
        (over,) = [part for part in view.parts if isinstance(part, Heatmap)]
        assert over.backdrop is not None
        assert over.values.shape == over.backdrop.shape[:2]
        assert view.svg().count("<image") == 2 + (2 if over.backdrop.ndim == 3 else 1)
        view.save(tmp_path / "view.png")


def test_cells_and_gates_of_a_sound_are_drawn_over_time(frozen: Callable[[str], Run]) -> None:
    run, file = frozen("transcription"), "transcription/3.wav"
    view = clew.look(run, "cells", text=file, layer="1.forward", units=(2,))
    lines = view.parts[0]
    assert isinstance(lines, Lines) and lines.x_label == "time (s)" and list(lines.series[0].x)[:3] == [0.0, 0.03, 0.06]
    with record(run, "*.cell_state") as recorded:
        run.task.reads(ModelInput(file)).hidden()
    path, *_ = [path for path in recorded.seen if "forward_layer" in path]
    assert list(lines.series[0].y) == pytest.approx(recorded[path][0, :, 1].tanh().tolist(), abs=1e-5)
    gates = clew.look(run, "gates", text=file)
    opened = [part for part in gates.parts if isinstance(part, Lines) and part.x_label == "time (s)"]
    assert [part.title for part in opened] == [
        f"How open the gates of layer 1.{way} are, mean over cells" for way in ("forward", "backward")
    ]
    assert [series.name for series in opened[0].series] == ["input", "forget", "output"]
    assert gates.about.startswith(f"over {len(lines.series[0].x)} frames")


def test_cells_and_gates_of_a_picture_are_maps(frozen: Callable[[str], Run]) -> None:
    run, file = frozen("picture_classification"), "picture_classification/0.png"
    view = clew.look(run, "cells", text=file, units=(1,))
    first, every = view.parts
    assert isinstance(first, Heatmap) and isinstance(every, Grid)
    np.testing.assert_allclose(first.values.flatten(), view.facts["units"]["1"], atol=1e-4)
    assert first.values.shape == (4, 4) and view.facts["tokens"][5] == "row 2, column 2"
    (maps,) = [part for part in clew.look(run, "gates", text=file).parts if isinstance(part, Grid)]
    assert list(maps.column_names) == ["input", "forget", "output"] and maps.maps[0][0].shape == (4, 4)


def test_gradients_are_labelled_by_the_kind_of_position(frozen: Callable[[str], Run]) -> None:
    for name, text, units in (
        ("picture_classification", "picture_classification/0.png", "patches"),
        ("transcription", "transcription/3.wav", "frames"),
        ("node_labelling", dependencies(1), "words"),
    ):
        view = clew.look(frozen(name), "gradients", text=text, steps=2, places=2, untrained=False)
        assert view.parts[0].x_label == f"k, {units} back"  # type: ignore[union-attr]


def test_a_graph_is_inspected_by_its_words(frozen: Callable[[str], Run]) -> None:
    run, text = frozen("node_labelling"), dependencies(1)
    words = [line.split("\t")[1] for line in text.splitlines() if line]
    assert [layer.name for layer in recurrent_layers(run)] == ["1.forward", "1.backward"]
    assert clew.look(run, "cells", text=text).facts["tokens"] == words
    gates = clew.look(run, "gates", text=text).facts["layers"]["1.forward"]
    assert set(gates["gates"]) == {"input", "forget", "output"} and "half_lives" not in gates
    facts = clew.look(run, "attribution", text=text, place=2, of="root", baseline="zero").facts
    assert facts["what"] == f"the score of 'root' at '{words[1]}'" and len(facts["values"]) == len(words)
    assert sum(facts["values"]) == pytest.approx(facts["score"] - facts["baseline_score"], abs=1e-2)
    assert [tag[1] for tag in clew.look(run, "prediction", text=text).facts["tags"]][1] == "root"


def test_taps_of_grids_are_shown_by_position() -> None:
    grid = GridLSTM(3, 2, directions=2)
    layers = recurrent_layers(grid)
    assert [layer.name for layer in layers] == ["1.top_left", "1.bottom_right"] and layers[0].keeping is None
    with record(grid, "*.cell_state") as recording:
        grid(torch.randn(1, 3, 4, 3))
    recorded = recording[layers[0].memory or ""]
    assert torch.equal(layers[0].values(recorded), recorded[0].reshape(12, 2))


@pytest.mark.parametrize("name", ["picture_classification", "transcription"])
def test_a_causal_body_gives_the_same_vectors_position_by_position(name: str) -> None:
    case = CASES["a picture"]() if name == "picture_classification" else None
    if case is None:
        torch.manual_seed(0)
        reader, family = LogMelReader(rate=4000, num_mels=6), MODELS["recurrent"]
        body = family.build(family.config(cell="gru", dim=6), reader.source())  # type: ignore[call-arg]
        task: Transcriber | PictureClassifier = (
            Transcriber(body, reader, train_character(["ab"]), TranscriptionConfig()).double().eval()
        )
        inputs = ModelInput(Sound(torch.randn(600), 4000))  # type: ignore[arg-type]
    else:
        task, inputs = case.module, ModelInput(scenes(1, 1, "train", side=32)[0])  # type: ignore[assignment, arg-type]
    reading = task.reads(inputs)
    carried = task.carries(reading)
    assert carried is not None
    state, rows = carried.state, []
    with evaluating([task]):
        for t in range(len(reading.tokens)):
            hidden, state = carried.step(
                t, map_batch(lambda part: part.double() if part.is_floating_point() else part, state)
            )
            rows.append(hidden)
    torch.testing.assert_close(torch.cat(rows, 1), reading.hidden())


def test_the_command_takes_a_picture_and_a_sound_by_name(
    frozen: Callable[[str], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["look", "prediction", "picture_classification/run", "picture_classification/0.png", "--device", "cpu"])
        == 0
    )
    assert capsys.readouterr().out.startswith("Prediction: red\n")
    assert main(["look", "levels", "transcription/run", "--file", "transcription/3.wav", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["look", "cost", "captioning/run", "repeats=0", "lengths=4,9", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["look", "levels", "transcription/run", "transcription/3.wav", "transcription/0.wav"]) == 2
    assert (
        "only one file can be read, but there are transcription/3.wav, transcription/0.wav; give one"
        in capsys.readouterr().err
    )
    assert main(["look", "cost", "node_labelling/run", "repeats=0"]) == 2
    assert "has no body of clew layers, the only ones whose cost is known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "inputs", "options", "sentence"),
    [
        ("transcription", "transcription/3.wav", {"place": 9}, "there is no symbol 9 in the transcript; it has 3"),
        ("transcription", "transcription/3.wav", {"of": "xyz"}, "of='xyz' has symbols that the model does not know"),
        (
            "transcription",
            "transcription/0.wav",
            {"of": "cab" * 9},
            "needs at least 27 frames, and the sound has 3; give a shorter text",
        ),
        (
            "picture_classification",
            "picture_classification/0.png",
            {"method": "occlusion", "occlude": "remove"},
            (
                "the score depends on the place of every patch of this model's input, so none can be removed; set"
                " occlude=replace"
            ),
        ),
        ("node_labelling", "Ada sees", {}, "the words have no heads, so there is no graph; fill in HEAD"),
        ("node_labelling", dependencies(1), {"place": 9}, "there is no word 9; the sentence has"),
        ("captioning", "", {}, "there is no picture to read; name a file"),
    ],
)
def test_unsuitable_inputs_and_options_are_rejected(frozen, name, inputs, options, sentence) -> None:
    with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
        clew.look(frozen(name), "attribution", text=inputs, **options)
