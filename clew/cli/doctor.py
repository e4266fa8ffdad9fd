"""Show what clew finds on this machine: versions, devices, caches, disks, and missing packages with their purpose.

For example:

  clew doctor
  clew doctor --json

Nothing is changed or downloaded. The exit code is 1 if clew itself lacks something, and 0 if only optional packages
are missing.
"""

import argparse
import json
import os
import platform
import re
import shutil
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from clew.cli.terminal.tables import size, text_table

PURPOSES = {
    "plot": "matplotlib figures: figure() in Python, .png and .pdf in `clew look` and `clew runs compare`",
    "tensorboard": "training.log=[tensorboard]: a run's metrics for TensorBoard",
    "wandb": "training.log=[wandb]: a run's metrics for Weights & Biases, offline",
    "mlflow": "training.log=[mlflow]: a run's metrics for MLflow, in SQLite",
    "elmo": "published ELMo weights in HDF5, for `clew import`",
    "sound": "FLAC, Ogg and MP3 files; WAV needs no package",
    "hf": "comparison with transformers; checkpoints are read and written without it",
    "onnx": "`clew export --to onnx`",
    "tables": "Parquet, Arrow, Feather and workbooks as data; CSV and JSON need no package",
    "pictures": "JPEG and other pictures; PNG needs no package",
    "search": "`clew train --search` and clew.search, which use Optuna",
    "sklearn": "estimators for scikit-learn pipelines and searches",
    "docs": "building the documentation",
    "notebooks": "running the notebooks in examples/",
}
"""The purpose of each extra: of NAME in `pip install 'clew[NAME]'`."""
LITTLE = 2 * 10**9
"""Free bytes on a disk below which a lack of space is reported."""
COMPILERS = ("c++", "g++", "clang++", "cl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print all facts as one JSON object")


def run(options: argparse.Namespace) -> int:
    from clew import __version__

    packages = required()
    torch_facts = devices()
    facts = {
        "clew": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        **torch_facts,
        "compiler": next((path for name in COMPILERS if (path := shutil.which(name))), None),
        "cache": cache(),
        "disks": disks(),
    }
    facts["missing"] = missing(facts)
    print(json.dumps(facts, ensure_ascii=False) if options.json else "\n".join(lines_of(facts)))
    return 1 if any(each["needed"] for each in facts["missing"]) else 0


def required() -> list[dict[str, Any]]:
    """Return every package in clew's metadata, except those of `dev`: the required and installed versions, and the
    extra that needs it."""
    try:
        requirements = requires("clew") or []
    except PackageNotFoundError:  # run from a source folder that was never installed
        return []
    packages = []
    for line in requirements:
        parsed = re.match(r"([\w.-]+)(?:[>=]=([\w.]+))?", line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if parsed is None or (extra is not None and extra[1] not in PURPOSES):
            continue
        installed = version_of(parsed[1])
        is_enough = installed is not None and (parsed[2] is None or numbers(installed) >= numbers(parsed[2]))
        packages.append(
            {
                "name": parsed[1],
                "least": parsed[2],
                "version": installed,
                "enough": is_enough,
                "extra": extra[1] if extra else None,
            }
        )
    return packages


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """2.13.0+cu130 -> (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def devices() -> dict[str, Any]:
    """Return the available devices and the one that `device=auto` chooses, or the reason why torch cannot be
    imported."""
    try:
        import torch

        from clew.core.devices import choose_device
    except Exception as error:  # a broken installation, which is what this verb reports, can fail in any way
        return {"device": None, "gpus": [], "fault": f"torch cannot be used: {type(error).__name__}: {error}"}
    gpus = []
    for number in range(torch.cuda.device_count()) if torch.cuda.is_available() else ():
        free, total = torch.cuda.mem_get_info(number)
        gpus.append({"name": torch.cuda.get_device_name(number), "memory": total, "free": free})
    built = torch.version.cuda or torch.version.hip
    return {"device": choose_device("auto")[1], "gpus": gpus, "cuda": built, "cores": os.cpu_count(), "fault": None}


def cache() -> dict[str, Any]:
    """Return the folder of encoded texts and compiled code, and its size."""
    from clew.core.files import cache_folder

    folder = cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {"folder": str(folder), "bytes": sum(path.stat().st_size for path in files), "files": len(files)}


def disks() -> list[dict[str, Any]]:
    """Return the free space for runs and caches."""
    from clew.core.files import cache_folder

    places = []
    for purpose, folder in (("runs", Path("runs")), ("cache", cache_folder())):
        existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        places.append(
            {
                "for": purpose,
                "folder": str(existing),
                "free": shutil.disk_usage(existing).free,
                "writable": existing.is_dir() and os.access(existing, os.W_OK),
            }
        )
    return places


def missing(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the missing packages: purpose, remedy, and whether clew needs it."""
    gaps = []
    for package in facts["packages"]:
        if package["enough"]:
            continue
        extra = package["extra"]
        what = (
            package["name"]
            if package["version"] is None
            else f"{package['name']} {package['version']}, at least {package['least']}"
        )
        install = "pip install --upgrade clew" if extra is None else f"pip install 'clew[{extra}]'"
        gaps.append(
            {"what": what, "for": PURPOSES.get(extra, "clew itself"), "remedy": install, "needed": extra is None}
        )
    if facts["fault"]:
        gaps.append({"what": facts["fault"], "for": "clew itself", "remedy": "install torch again", "needed": True})
    if facts["compiler"] is None:
        remedy = "install g++ or clang"
        gaps.append(
            {
                "what": "a C++ compiler",
                "for": "training.compile=true and fast cells of your own on a CPU",
                "remedy": remedy,
                "needed": False,
            }
        )
    for disk in facts["disks"]:
        if not disk["writable"] or disk["free"] < LITTLE:
            what = f"space in {disk['folder']}" if disk["writable"] else f"permission to write to {disk['folder']}"
            remedy = "choose another folder with --out" if disk["for"] == "runs" else "set CLEW_CACHE to another folder"
            gaps.append(
                {
                    "what": what,
                    "for": disk["for"],
                    "remedy": remedy,
                    "needed": not disk["writable"] and disk["for"] == "runs",
                }
            )
    return gaps


def lines_of(facts: dict[str, Any]) -> list[str]:
    installed = {each["name"]: each["version"] for each in facts["packages"] if each["version"] is not None}
    rows = [
        ("clew", f"{facts['clew']}, Python {facts['python']}, {facts['platform']}"),
        (
            "packages",
            ", ".join(f"{name} {version}" for name, version in installed.items())
            or "unknown: clew was not installed by pip",
        ),
        ("device", facts["device"] or "none"),
        *(("GPU", f"{gpu['name']}, {size(gpu['free'])} of {size(gpu['memory'])} free") for gpu in facts["gpus"]),
        ("compiler", facts["compiler"] or "none"),
        ("cache", f"{facts['cache']['folder']}: {size(facts['cache']['bytes'])} in {facts['cache']['files']:,} files"),
        *((f"disk for {disk['for']}", f"{disk['folder']}: {size(disk['free'])} free") for disk in facts["disks"]),
    ]
    lines = [f"{name:14} {text}" for name, text in rows]
    if not facts["missing"]:
        return [*lines, "nothing is missing"]
    cells = [[each["what"], each["for"], each["remedy"]] for each in facts["missing"]]
    return [*lines, "", *text_table(["missing", "for", "remedy"], cells).splitlines()]
