from pathlib import Path

import pytest

from clew.tour.keeping import finding_path, store_finding, stored_finding
from tests.tour.findings import finding


def test_a_finding_that_was_kept_is_the_same(tmp_path: Path) -> None:
    one = finding("</script> naïve")
    store_finding(tmp_path, "one", "tour", 3, one)
    again = stored_finding(tmp_path, "one", "tour", 3)
    assert again is not None
    assert (again.title, again.claim, again.found, list(again.rows), again.seconds) == (
        one.title,
        one.claim,
        one.found,
        list(one.rows),
        one.seconds,
    )
    assert again.view.html() == one.view.html()


def test_another_scale_seed_or_name_is_not_found(tmp_path: Path) -> None:
    store_finding(tmp_path, "one", "tour", 3, finding())
    assert stored_finding(tmp_path, "one", "full", 3) is None
    assert stored_finding(tmp_path, "one", "tour", 4) is None
    assert stored_finding(tmp_path, "two", "tour", 3) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"form": 1}', '{"form": 1, "scale": "tour", "seed": 3}', "\x00"]
)
def test_a_file_that_is_broken_is_made_again(tmp_path: Path, content: str) -> None:
    path = finding_path(tmp_path, "one")
    path.parent.mkdir()
    path.write_text(content)
    assert stored_finding(tmp_path, "one", "tour", 3) is None
