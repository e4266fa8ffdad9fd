"""The corpora that ship with the package. ATTRIBUTION.md in each folder states the licence."""

from importlib.resources import files
from pathlib import Path

from clew.core.errors import unknown

EMBEDDED = Path(str(files("clew.data") / "embedded"))


def sample_path(name: str) -> Path:
    """Return the file of an embedded corpus, or its folder if it has several files."""
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
