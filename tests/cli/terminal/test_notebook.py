"""In a notebook, progress is a bar in the cell's output, nothing goes to standard error, and cells can be rerun."""

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.terminal.notebook import NotebookBar, is_notebook
from clew.training.records import HostCopy, Record
from tests.runs.small import LSTM, write_text

ROOT = Path(clew.__file__).parents[1]
CELLS = [
    "import clew\nrows = [(f'a good film {n}', 'pos') if n % 2 else (f'a bad film {n}', 'neg') for n in range(20)]",
    "small = {'training': {'steps': 4, 'evaluate_every': 2}, 'model__dim': 8, 'embedding__dim': 8, 'device': 'cpu'}",
    "run = clew.train('classify', data=rows, **small)\nrun",
    "kept = clew.train('classify', data=rows, out='runs/kept', overwrite=True, **small)",
    "evaluation = run.evaluate(rows)\nevaluation",
    "run.classify('a good film')",
    "clew.look(run, 'levels', text='a good film')",
]


def notebook(settings: Any) -> Any:
    nbformat = pytest.importorskip("nbformat")
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS], metadata=settings)


@pytest.mark.slow
def test_a_notebook_runs_twice_with_a_bar_and_no_stream_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for time in (1, 2):
        run = notebook({})
        nbclient.NotebookClient(
            run, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
        outputs = [output for cell in run.cells for output in cell.outputs]
        assert [output for output in outputs if output.output_type == "stream"] == []
        (bar, shown), (other,) = run.cells[2].outputs, run.cells[3].outputs
        assert (
            '<progress max="4" value="4"' in bar.data["text/html"]
            and "step 4, validation: loss" in bar.data["text/html"]
        )
        assert shown.data["text/plain"].startswith(f"Run('runs/classify{'' if time == 1 else '-2'}': recurrent")
        assert "writing to runs/kept" in other.data["text/plain"]
        assert "<table>" in run.cells[4].outputs[0].data["text/html"]
        assert run.cells[5].outputs[0].data["text/plain"].startswith("Classified('a good film', label=")
        assert "<iframe" in run.cells[6].outputs[0].data["text/html"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["classify", "classify-2", "kept"]


def test_the_bar_shows_messages_and_progress() -> None:
    import torch

    bar = NotebookBar()
    bar.lines = ["data of <b>mine</b>"]
    bar.show = lambda: None  # type: ignore[method-assign]  # display needs a notebook
    bar.step(Record(3, 0, 0.1, 10, {"loss": 2.0}, HostCopy(torch.tensor([5.0, 1.5]))), 10, 1234.0)
    assert '<progress max="10" value="3"' in bar.html() and "step 3 of 10: loss 2.5000" in bar.html()
    bar.evaluating(1, 2)
    assert '<progress max="2" value="1"' in bar.html() and "evaluating: 1 of 2 batches" in bar.html()
    bar.evaluating(2, 2)
    assert '<progress max="10" value="3"' in bar.html() and "step 3 of 10" in bar.html()
    assert "data of &lt;b&gt;mine&lt;/b&gt;" in bar.html()


def test_a_script_is_not_taken_for_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    assert not is_notebook()
    clew.train("text-lstm", f"data.train={write_text(tmp_path)}", *LSTM, training__steps=1)
    assert "step 1 of 1: loss" in capsys.readouterr().err
