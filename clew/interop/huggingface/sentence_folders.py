"""Folders of `sentence-transformers`: an encoder, the pooling of its vectors, and whether they are normalised to length
1."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown
from clew.core.files import read_json, write_json
from clew.interop.huggingface.architecture import Understood
from clew.interop.huggingface.folders import CONFIG, inside, read_object

MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
OPTIONS = tuple(f"sentence_{kind}_config.json" for kind in ("bert", "roberta", "distilbert", "xlm-roberta"))
"""The possible names of the file with an encoder's options."""
POOLINGS = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}


def inner_folder(path: Path) -> Path:
    """Return the folder of the encoder's files: the folder itself, or the first one in modules.json."""
    if not (path / MODULES).is_file() or (path / CONFIG).is_file():
        return path
    return inside(path, modules_of(path)[0][1], path / MODULES)


def modules_of(path: Path) -> list[tuple[str, str]]:
    """Return the kind and the folder of each module."""
    try:
        return [
            (str(module["type"]).rpartition(".")[2], str(module["path"]))
            for module in read_json(inside(path, MODULES, path))
        ]
    except (KeyError, TypeError):
        raise UserError(f"{path / MODULES} must list modules, each with its type and its path; copy it again") from None


def sentence_task(path: Path, understood: Understood) -> Understood:
    """Replace the task by the one that the modules describe."""
    modules = modules_of(path)
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UserError(
            f"{path / MODULES}: clew reads Transformer, Pooling and, optionally, Normalize, in this order; this file"
            f" has {', '.join(kinds)}"
        )
    settings = read_object(inside(path, modules[1][1], path / MODULES) / CONFIG)
    check_prompt(path / PROMPTS)
    folder = inside(path, modules[0][1], path / MODULES)
    options_path = next((folder / name for name in OPTIONS if (folder / name).is_file()), folder / OPTIONS[0])
    options = read_object(options_path) if options_path.is_file() else {}
    longest = options.get("max_seq_length")
    if longest is not None and (not isinstance(longest, int) or longest < 1):
        raise UserError(f"{options_path}: max_seq_length takes a whole number of at least 1, not {shown(longest)}")
    if options.get("do_lower_case"):
        raise UserError(
            f"{options_path}: do_lower_case is true, but clew leaves case to the tokenizer; give the tokenizer a"
            " lower-casing normalizer and set do_lower_case to false"
        )
    task = {
        "name": "representation",
        "pooling": pooling_of(settings, path / modules[1][1] / CONFIG),
        "normalise": kinds[-1] == "Normalize",
        "longest": longest,
    }
    return replace(understood, task=task)


def check_prompt(path: Path) -> None:
    """Raise a UserError for a folder that puts a prompt before every text."""
    name = (read_object(path) if path.is_file() else {}).get("default_prompt_name")
    if name is not None:
        raise UserError(
            f"{path}: default_prompt_name is {shown(name)}, a prompt before every text, which clew does not add; set it"
            " to null"
        )


def pooling_of(settings: dict[str, Any], path: Path) -> str:
    if settings.get("include_prompt") is False:
        raise UserError(f"{path}: include_prompt is false, but clew pools the whole text; set it to true")
    chosen = [mode for flag, mode in FLAGS.items() if settings.get(flag)] or [str(settings.get("pooling_mode", "mean"))]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise UserError(f"{path}: the pooling {' with '.join(chosen)} is not known; known: {', '.join(POOLINGS)}")
    return POOLINGS[chosen[0]]


def write_sentence_files(folder: Path, task: Any, dim: int, longest: int | None) -> None:
    """Write the files that sentence-transformers needs in addition to an encoder; none if it does not support this
    pooling."""
    mode = next((theirs for theirs, ours in POOLINGS.items() if ours == task.pooling), None)
    if mode is None:
        return
    kinds = ["Transformer", "Pooling", *(["Normalize"] if task.normalise else [])]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    write_json(folder / MODULES, modules)
    for path in paths[1:]:
        (folder / path).mkdir()
    flags = {flag: pooling_mode == mode for flag, pooling_mode in FLAGS.items()}
    write_json(folder / paths[1] / CONFIG, {"word_embedding_dimension": dim, **flags})
    if longest is not None:
        write_json(folder / OPTIONS[0], {"max_seq_length": longest, "do_lower_case": False})
