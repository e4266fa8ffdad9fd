import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.drawing.views import Bars, Heatmap, Note, View
from tests.instruments.samples import every_part

VIEW = View("a title", every_part(), "about it", {"count": 3, "mean": np.float32(0.5)})


@pytest.mark.parametrize("ending", [".html", ".svg", ".json", ".HTML"])
def test_a_view_is_saved_as_its_files_ending_says(tmp_path: Path, ending: str) -> None:
    path = VIEW.save(tmp_path / f"view{ending}")
    expected = {".html": VIEW.html, ".svg": VIEW.svg, ".json": VIEW.json}[ending.lower()]()
    assert path.read_text(encoding="utf-8") == expected and list(tmp_path.iterdir()) == [path]


def test_json_has_every_value_and_null_for_what_is_none() -> None:
    view = View(
        "t",
        [Heatmap(np.array([[1.5, math.nan]]), ["a"], ["x", "y"]), Bars(["a"], [math.inf], "n")],
        facts={"k": np.int64(2)},
    )
    fields = json.loads(view.json())
    assert fields["title"] == "t" and fields["facts"] == {"k": 2}
    assert [part["kind"] for part in fields["parts"]] == ["heatmap", "bars"]
    assert fields["parts"][0]["values"] == [[1.5, None]] and fields["parts"][1]["values"] == [None]
    assert len(json.loads(VIEW.json())["parts"]) == len(VIEW.parts)


def test_half_a_character_can_be_saved(tmp_path: Path) -> None:
    view = View("\ud800", [Note("\udfff")])
    for ending in ("html", "svg", "json"):
        view.save(tmp_path / f"a.{ending}").read_text(encoding="utf-8")


def test_other_endings_and_folders_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"cannot save a view as 'view\.gif'; known endings: \.html, \.svg, \.json, \.png, \.pdf"
    ):
        VIEW.save(tmp_path / "view.gif")
    with pytest.raises(UserError, match="no such folder for the view: .*nowhere; create it first"):
        VIEW.save(tmp_path / "nowhere" / "view.html")


def test_a_notebook_gets_one_frame_and_a_page_a_fragment() -> None:
    assert VIEW._repr_html_().startswith("<iframe srcdoc=") and VIEW._repr_html_().count("<") == 2
    assert VIEW.fragment("f").startswith('<section class="clew-view"') and 'id="f-' in VIEW.fragment("f")


def test_parts_stand_below_each_other_in_one_picture() -> None:
    root = ElementTree.fromstring(VIEW.svg())
    groups = [group for group in root if group.tag.endswith("}g")]
    tops = [float(group.get("transform", "").split()[1].rstrip(")")) for group in groups]
    assert len(groups) == len(VIEW.parts) and tops == sorted(tops) and tops[-1] < float(root.get("height", ""))


def test_the_guides_own_view_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "inspecting.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(guide.split("## Views")[1].split("```python\n")[1].split("```")[0], names)
    view = names["view"]
    assert isinstance(view, View) and Path("view.html").read_text(encoding="utf-8") == view.html()
