import json

import pytest

from clew.core.errors import UserError
from clew.data.corpora.samples import SAMPLES, sample_path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_exists_with_its_attribution(name):
    path = sample_path(name)
    folder = path if path.is_dir() else path.parent
    assert path.exists()
    assert "Licence: " in (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")


def test_every_photograph_names_its_licence_and_source():
    folder = sample_path("coco")
    photographs = json.loads((folder / "captions.json").read_text(encoding="utf-8"))
    assert {photograph["file"] for photograph in photographs} == {path.name for path in (folder / "images").iterdir()}
    assert all(photograph["license_url"] and photograph["flickr_url"] for photograph in photographs)


def test_a_translation_has_as_many_lines_as_its_source():
    for part in ("train", "dev", "test"):
        lines = [
            len((sample_path("tatoeba") / f"{part}.{language}").read_bytes().splitlines()) for language in ("en", "de")
        ]
        assert lines[0] == lines[1]


def test_an_unknown_sample_is_reported_with_similar_names():
    message = (
        "unknown sample 'tinyshakspeare'; did you mean 'tinyshakespeare'\\? known: coco, craft, digits, ewt, gum,"
        " panlex"
    )
    with pytest.raises(UserError, match=message):
        sample_path("tinyshakspeare")
