"""What a page of the site takes from files outside docs/: `{{ document("CONTRIBUTING.md") }}`, `{{ notebook("lecture")
}}`."""

import base64
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def define_env(env: Any) -> None:
    """Called by zensical before it renders a page."""
    env.macro(document)
    env.macro(notebook)


def document(name: str) -> str:
    """A file of the repository's root; its links lead on from docs/."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def notebook(name: str) -> str:
    """A notebook of examples/ as Markdown: its text, its code and what the code gave."""
    cells = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(cell_text(cell) for cell in cells)


def cell_text(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return (
            source.replace("](../docs/", "](../")
            .replace("](../CONTRIBUTING.md", "](../contributing.md")
            .replace(".ipynb)", ".md)")
        )
    return "\n\n".join([fenced(source, "python"), *filter(None, map(output_text, cell["outputs"]))])


def output_text(output: dict[str, Any]) -> str:
    """A picture stands in the page itself, as it does in the notebook, where its styles touch no other's."""
    if output["output_type"] == "stream":
        return fenced("".join(output["text"]), "text")
    data = {kind: "".join(text) for kind, text in output["data"].items()}
    if "image/svg+xml" in data:
        picture = base64.b64encode(data["image/svg+xml"].encode()).decode()
        return f"![{data['text/plain']}](data:image/svg+xml;base64,{picture})"
    return fenced(data["text/plain"], "text")


def fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
