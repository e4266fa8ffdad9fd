"""Lines of handwriting, column by column: a file is read like the drawn line, and a few lines are memorised."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from clew.cli.main import main
from clew.core.errors import UserError
from clew.data.kinds.transcribed import TRANSCRIBED, TranscribedData
from clew.data.sounds.spoken_digits import Recording
from clew.data.synthetic.drawn_lines import DrawnLine, drawn_lines
from clew.recipes.running import run_recipe
from clew.sources.lines import ColumnsReader
from clew.sources.readers import AnyReader
from clew.sources.sounds import LogMelReader


def test_a_file_of_a_line_is_read_like_the_line_itself(tmp_path: Path) -> None:
    reader, (line,) = ColumnsReader(stack=2), drawn_lines(1, 2, 2, seed=3)
    Image.fromarray(line.pixels("rgb")).save(tmp_path / "line.png")
    path = str(tmp_path / "line.png")
    assert torch.equal(reader.read(path), reader.read(line))
    assert reader.measured(path).length == reader.measured(line).length == len(reader.read(line))
    ink = 1 - torch.from_numpy(line.pixels("grey"))[..., 0].float() / 255
    assert torch.equal(reader.read(line)[0], ink.mT[:2].flatten()) and float(ink.max()) == 1
    assert reader.canvas(path).darkness == pytest.approx(255 * ink.numpy(), abs=0.51)


def test_a_line_is_resized_to_the_height_with_its_proportions(tmp_path: Path) -> None:
    Image.new("L", (90, 64), 255).save(tmp_path / "wide.png")
    reader = ColumnsReader(height=32, stack=4)
    assert (
        reader.measured(str(tmp_path / "wide.png")).length == len(reader.read(str(tmp_path / "wide.png"))) == 12
    )  # 45 columns
    assert AnyReader.from_json(reader.to_json()) == reader
    with pytest.raises(UserError, match="unknown reader of inputs 'columsn'; did you mean 'columns'"):
        AnyReader.from_json('{"name": "columsn"}')
    with pytest.raises(UserError, match=r"task.input.height \(4\) must be between 8 and 512"):
        ColumnsReader(height=4)


def test_drawn_lines_are_determined_by_the_seed_and_parts_are_disjoint() -> None:
    data = TranscribedData(corpus="lines", strings=40, longest=3)
    parts = TRANSCRIBED.read(data, seed=1)
    assert {part: len(lines) for part, lines in parts.items()} == {"train": 40, "valid": 4, "test": 4}
    assert parts == TRANSCRIBED.read(data, seed=1) != TRANSCRIBED.read(data, seed=2)
    keys = [example.input.key for lines in parts.values() for example in lines]
    assert len(set(keys)) == len(keys) and all(1 <= len(example.text.split()) <= 3 for example in parts["train"])


def test_four_lines_are_memorised_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = drawn_lines(4, 1, 1, seed=1)
    for number, line in enumerate(lines):
        Image.fromarray(line.pixels("rgb")).save(tmp_path / f"{number}.png")
    rows = "".join(f"{number}.png,{line.text}\n" for number, line in enumerate(lines))
    (tmp_path / "lines.csv").write_text("image,text\n" + rows, encoding="utf-8")
    data = [
        f"data.train={tmp_path}/lines.csv",
        f"data.valid={tmp_path}/lines.csv",
        "model.dim=32",
        "model.dropout=0",
        "device=cpu",
    ]
    steps = [
        "training.steps=220",
        "training.batch_size=4",
        "training.learning_rate=0.02",
        "training.evaluate_every=220",
    ]
    run_recipe("read-lines", [*data, *steps], out=tmp_path / "run")
    files = [str(tmp_path / f"{number}.png") for number in range(4)]
    assert main(["transcribe", str(tmp_path / "run"), *files]) == 0
    assert capsys.readouterr().out == "".join(f"{file}\t{line.text}\n" for file, line in zip(files, lines, strict=True))


def test_data_of_another_kind_is_rejected_by_name() -> None:
    recording = Recording(7, "anna", 1, Path("speech.tar"), 0, 10)
    with pytest.raises(
        UserError, match=r"speech.tar:7_anna_1: this is not a picture; use data with pictures, or another reader"
    ):
        ColumnsReader().measured(recording)
    with pytest.raises(UserError, match=r"lines so\+3: this is not a sound; choose data of sounds, or another reader"):
        LogMelReader(rate=8000).measured(DrawnLine("so", 3))
