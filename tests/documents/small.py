"""Short forms of the commands in documents: few steps of narrow models on the starts of corpora."""

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.recipes import RECIPES
from clew.recipes.resolving import resolve_recipe
from clew.runs.settings.fields import fields_of

STEPS = 2
SIZES: dict[str, int] = {
    "data.size": 60,
    "text.size": 300,
    "text.workers": 1,
    "training.steps": STEPS,
    "training.evaluate_every": 1,
    "training.batch_size": 4,
    "training.accumulate": 1,
    "training.batch_tokens": 400,
    "training.length": 16,
    "training.log_every": 1,
    "decoding.max_new": 8,
    "model.layer.num_rounds": 2,
}
"""The maximum of each field in a short run."""
WIDTHS = ("dim", "embedding_dim", "hidden_dim", "projection_dim", "attention_dim")
WIDTH = 24


def short_settings(recipe: str, settings: Sequence[str]) -> list[str]:
    """The settings of the document with smaller sizes."""
    if recipe not in RECIPES or any(
        "," in value and not value.startswith(("[", "{", '"')) for _, _, value in map(split, settings)
    ):
        named = {name for name, _, _ in map(split, settings)}
        common = {"training.steps": STEPS, "training.evaluate_every": 1, "training.batch_size": 4, "model.dim": WIDTH}
        return [
            *(s for s in settings if split(s)[0] not in common),
            *(f"{n}={v}" for n, v in common.items() if n not in named or "steps" in n),
        ]
    fields = fields_of(resolve_recipe(recipe, settings))
    smaller: dict[str, Any] = {
        name: most for name, most in SIZES.items() if isinstance(fields.get(name), int) and fields[name] > most
    }
    heads = fields.get("model.num_heads") or 1
    for name in WIDTHS:
        width = fields.get(f"model.{name}")
        # Rotary positions need even head dimensions.
        limit = 2 * heads * -(-WIDTH // (2 * heads)) if name == "dim" else WIDTH
        if isinstance(width, int) and width > limit and not has_base(fields):
            smaller[f"model.{name}"] = limit
    if fields.get("training.compile"):
        smaller["training.compile"] = "false"  # compilation takes longer than everything else
    if (
        "training.schedule" in fields
        and isinstance(fields["training.schedule"], dict)
        and fields["training.epochs"] is None
    ):
        smaller |= {"training.schedule": "constant"} if "warmup" in fields["training.schedule"] else {}
    return [
        *(s for s in settings if split(s)[0] not in smaller),
        *(f"{name}={value}" for name, value in smaller.items()),
    ]


def has_base(fields: dict[str, Any]) -> bool:
    """Whether a run takes the sizes of its body from another run."""
    return fields.get("transfer.from") is not None


def split(setting: str) -> tuple[str, str, str]:
    return setting.partition("=")


def save_heads(source: Path, target: Path, lines: int = 60) -> Path:
    """Save the starts of the embedded corpora in files of the same names."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".tar":
            with tarfile.open(path) as whole, tarfile.open(place, "w") as head:
                members = whole.getmembers()
                for member in members[:: max(1, len(members) // 24)]:
                    head.addfile(member, whole.extractfile(member))
        elif path.suffix == ".json" or path.suffix == ".jpg" or path.suffix == ".md":
            shutil.copy(path, place)
        else:
            text = path.read_text(encoding="utf-8")
            blocks = text.split("\n\n") if "\n\n" in text else text.splitlines()
            # Words of a text must occur repeatedly.
            most = {"lm": 1000, "tagging": 3 * lines}.get(path.parent.name, lines)
            step = max(1, len(blocks) // most)
            mark = "\n\n" if "\n\n" in text else "\n"
            place.write_text(mark.join(blocks[::step]).strip("\n") + mark, encoding="utf-8")
    return target


def short_words(words: Sequence[str]) -> list[str]:
    """Shorten a command that measures or trains; return other commands unchanged."""
    verb, rest = words[0], list(words[1:])
    if words[:3] == ["look", "gradients", "runs/tatoeba-lstm"]:  # an untrained run may generate nothing
        return [*words, "target=Where is the station ?"]
    if verb == "tour" and "--list" not in rest:
        only = [] if "--only" in rest else ["--only", "kernel"]
        return [
            verb,
            *(word for word in rest if word != "--all"),
            *only,
            *(["--scale", "quick"] if "--scale" not in rest else []),
        ]
    if verb == "bench" and "--list" not in rest:
        named = [] if any(not word.startswith("--") and not word.endswith(".json") for word in rest) else ["lstm-train"]
        return [verb, *named, *rest, *([] if "--quick" in rest else ["--quick"])]
    return [verb, *rest]
