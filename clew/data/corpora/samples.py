"""The corpora that ship with the package; each folder says under which licence (ATTRIBUTION.md)."""

from importlib.resources import files
from pathlib import Path

from clew.core.errors import unknown

EMBEDDED = Path(str(files("clew.data") / "embedded"))


def sample_path(name: str) -> Path:
    """The file of an embedded corpus, or its folder where it has several files."""
    if name not in SAMPLES:
        raise unknown("sample", name, SAMPLES)
    return EMBEDDED / SAMPLES[name]


SAMPLES = {
    "tinyshakespeare": "lm/tinyshakespeare.txt",
    "tatoeba": "mt",
    "ewt": "tagging",
    "polarity": "sentiment",
    "gum": "trees",
    "craft": "parsing",
    "coco": "captioning",
    "panlex": "lexicon",
    "digits": "speech",
}
