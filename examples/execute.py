"""Runs the notebooks of this folder and keeps what their cells give.

    python examples/execute.py                  all of them, written back with their outputs
    python examples/execute.py lecture          one of them
    python examples/execute.py --short          with few steps, written nowhere: do they run?

The outputs stand in the repository so that a reader sees the pictures without running anything.
They are kept small: text, and of a view its SVG picture. A cell tagged `parameters` has its
short form in its metadata.
"""

import argparse
import copy
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
PICTURES = """
from clew.drawing.views import View
View._repr_mimebundle_ = lambda v, **_: {"image/svg+xml": v.svg(), "text/plain": v.title}
"""


def execute(notebook: Any, *, short: bool = False, times: int = 1) -> Any:
    """A copy with the outputs of its cells, run from top to bottom so many times in one kernel.

    A cell that raises ends it with nbclient's CellExecutionError.
    """
    executed = copy.deepcopy(notebook)
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    sources = [
        cell.metadata.get("short", cell.source) if short else cell.source for cell in cells
    ]
    running = nbformat.v4.new_notebook(metadata=notebook.metadata)
    running.cells = [
        nbformat.v4.new_code_cell(source) for source in [PICTURES, *sources * times]
    ]
    resources = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(
        running, timeout=600, kernel_name="python3", resources=resources, record_timing=False
    )
    client.execute()
    for cell, ran in zip(cells, running.cells[-len(cells) :], strict=True):
        cell.outputs = [kept(output) for output in ran.outputs]
        cell.execution_count = None
    return executed


def kept(output: Any) -> Any:
    """An output without its count, and of several forms of it not the page with scripts."""
    if "execution_count" in output:
        output["execution_count"] = None
    if "data" in output:
        output["data"].pop("text/html", None)
    return output


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="notebooks by name; all where none is given")
    parser.add_argument("--short", action="store_true", help="few steps, nothing written")
    options = parser.parse_args()
    for path in [FOLDER / f"{name}.ipynb" for name in options.names] or sorted(
        FOLDER.glob("*.ipynb")
    ):
        start = time.monotonic()
        executed = execute(read(path), short=options.short)
        if not options.short:
            nbformat.write(executed, path)
        print(f"{path.name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
