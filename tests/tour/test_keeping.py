from pathlib import Path

import pytest

from clew.tour.keeping import finding_path, store_finding, stored_finding
from tests.tour.findings import finding


def test_a_stored_finding_is_restored(tmp_path: Path) -> None:
    one = finding("</script> naïve")
    store_finding(tmp_path, "one", "tour", 3, one)
    restored = stored_finding(tmp_path, "one", "tour", 3)
    assert restored is not None
    assert (restored.title, restored.claim, restored.measured, list(restored.rows), restored.seconds) == (
        one.title,
        one.claim,
        one.measured,
        list(one.rows),
        one.seconds,
    )
    assert restored.view.html() == one.view.html()


def test_another_scale_seed_or_name_is_not_found(tmp_path: Path) -> None:
    store_finding(tmp_path, "one", "tour", 3, finding())
    assert stored_finding(tmp_path, "one", "full", 3) is None
    assert stored_finding(tmp_path, "one", "tour", 4) is None
    assert stored_finding(tmp_path, "two", "tour", 3) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"form": 1}', '{"form": 1, "scale": "tour", "seed": 3}', "\x00"]
)
def test_a_broken_file_is_ignored(tmp_path: Path, content: str) -> None:
    path = finding_path(tmp_path, "one")
    path.parent.mkdir()
    path.write_text(content)
    assert stored_finding(tmp_path, "one", "tour", 3) is None
