import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Clew
from tests.runs.small import save_many_languages


@pytest.mark.slow
def test_every_level_of_a_run_is_probed(clew: Clew, lstm: Path) -> None:
    result = clew("probe", lstm, "--corpus", "ewt-sample", "--limit", 12, "--control", "--out", "levels.svg")
    assert result.status == 0 and result.err.endswith("wrote levels.svg\n")
    header, *rows = result.out.splitlines()
    assert header.split() == ["level", "embedding.mix", "ewt-sample", "l2", "untrained"]
    assert rows[0].startswith("embedding ") and rows[1].startswith("layer 1") and "last" in rows[1]
    assert Path("levels.svg").read_text(encoding="utf-8").startswith("<svg ")
    lines = clew("probe", lstm, "--limit", 12, "--json").out.splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["corpus"] for record in records} == {"ewt-sample", "sentiment-sample"}
    assert all(0 <= record["accuracy"] <= 100 for record in records)


def test_mistakes_are_reported_in_one_sentence(clew: Clew, lstm: Path, tmp_path: Path) -> None:
    save_many_languages(tmp_path / "translator")
    for arguments, sentence in [
        (
            (tmp_path / "translator",),
            "it has no vectors of a text alone; use a run that reads one sequence",
        ),
        ((lstm, "--corpus", "ewt-sampel"), "unknown corpus 'ewt-sampel'; did you mean 'ewt-sample'?"),
        ((lstm, "--limit", 0), "limit (0) must be at least 1 sentence"),
        ((lstm, "--out", "levels.png"), "--out must end in .svg, not levels.png"),
        ((lstm, "--out", "nowhere/levels.svg"), "no such folder for --out: nowhere; create it first"),
        (("nowhere",), "nowhere"),
    ]:
        result = clew("probe", *arguments)
        assert result.status == 2 and result.out == "" and sentence in result.err.splitlines()[-1]


@pytest.mark.slow
def test_the_code_of_the_guide_runs(lstm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "probing.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert block is not None
    exec(block[1].replace('"runs/ewt-tagger"', repr(str(lstm))).replace("limit=500", "limit=10"), {})
    table, accuracy = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert table.startswith(f"Probing of {lstm}\nlevel ") and 0 < float(accuracy) < 100
