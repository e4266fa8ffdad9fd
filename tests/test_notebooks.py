"""The notebooks of examples/ run twice, and their stored outputs are small and up to date."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
LARGEST = 400_000
BY_NAME = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(path: Path) -> list[dict]:
    return [
        output for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] for output in cell.get("outputs", [])
    ]


@BY_NAME
def test_stored_outputs_are_small_and_contain_no_scripts(path):
    assert path.stat().st_size < LARGEST
    kinds = {kind for output in outputs(path) for kind in output.get("data", {})}
    assert kinds <= {"text/plain", "image/svg+xml"}


@BY_NAME
def test_every_picture_of_a_notebook_is_shown(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    views = [
        cell
        for cell in cells
        if cell["cell_type"] == "code" and "".join(cell["source"]).rpartition("\n")[2].startswith("clew.look(")
    ]
    assert views
    for cell in views:
        assert any("image/svg+xml" in output.get("data", {}) for output in cell["outputs"]), (
            "run: python examples/execute.py"
        )


@BY_NAME
def test_a_page_of_the_site_shows_the_notebook(path):
    assert f'{{{{ notebook("{path.stem}") }}}}' in (ROOT / "docs" / "notebooks" / f"{path.stem}.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
@BY_NAME
def test_a_notebook_runs_twice_without_output_on_standard_error(path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    from examples.execute import execute, read

    executed = execute(read(path), short=True, times=2)
    streams = [
        output for cell in executed.cells for output in cell.get("outputs", []) if output.output_type == "stream"
    ]
    assert streams
    assert [output.text for output in streams if output.name == "stderr"] == []
