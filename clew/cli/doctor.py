"""Say what clew finds on this machine: versions, devices, caches, disks, and what is missing for what.

For example:

  clew doctor
  clew doctor --json

Nothing is changed and nothing is fetched. The exit code is 1 where clew itself lacks something, 0 where only what is
optional is missing.
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
    "plot": "pictures drawn with matplotlib: figure() in Python, .png, .pdf of `clew look` and `clew runs compare`",
    "tensorboard": "training.log=[tensorboard]: a run's records as events",
    "wandb": "training.log=[wandb]: a run's records for Weights & Biases, offline",
    "mlflow": "training.log=[mlflow]: a run's records for MLflow, in SQLite",
    "elmo": "published ELMo weights: `clew import` of HDF5 files",
    "sound": "FLAC, Ogg and MP3; WAV is read without",
    "hf": "comparisons with transformers; checkpoints are read and written without",
    "onnx": "`clew export --to onnx`",
    "tables": "Parquet, Arrow, Feather and workbooks as data; CSV and JSON are read without",
    "pictures": "JPEG and others; PNG is read without",
    "search": "`clew train --search`, clew.search: settings chosen by Optuna",
    "sklearn": "estimators for scikit-learn's pipelines and searches",
    "docs": "the documentation as a site: building it from the sources",
    "notebooks": "running the notebooks below examples/",
}
"""What each of the optional packages is for, by the name that `pip install 'clew[NAME]'` knows."""
LITTLE = 2 * 10**9
"""Bytes: less on a disk is said to be little."""
COMPILERS = ("c++", "g++", "clang++", "cl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object with every fact")


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
        "compiler": next((found for name in COMPILERS if (found := shutil.which(name))), None),
        "cache": cache(),
        "disks": disks(),
    }
    facts["missing"] = missing(facts)
    print(json.dumps(facts, ensure_ascii=False) if options.json else "\n".join(lines_of(facts)))
    return 1 if any(each["needed"] for each in facts["missing"]) else 0


def required() -> list[dict[str, Any]]:
    """Every package that clew's own metadata name: what is asked for, what is there, and which extra it is of; none of
    `dev`."""
    try:
        asked = requires("clew") or []
    except PackageNotFoundError:  # run from a folder that was never installed
        return []
    found = []
    for line in asked:
        parsed = re.match(r"([\w.-]+)(?:[>=]=([\w.]+))?", line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if parsed is None or (extra is not None and extra[1] not in PURPOSES):
            continue
        there = version_of(parsed[1])
        is_enough = there is not None and (parsed[2] is None or numbers(there) >= numbers(parsed[2]))
        found.append(
            {
                "name": parsed[1],
                "least": parsed[2],
                "version": there,
                "enough": is_enough,
                "extra": extra[1] if extra else None,
            }
        )
    return found


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """2.13.0+cu130 -> (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def devices() -> dict[str, Any]:
    """What a model can be trained on here, and what `device=auto` would take; why not, where torch itself cannot be
    imported."""
    try:
        import torch

        from clew.core.devices import choose_device
    except Exception as error:  # a broken installation fails in many ways, and saying so is what this is for
        return {"device": None, "gpus": [], "fault": f"torch cannot be used: {type(error).__name__}: {error}"}
    gpus = []
    for number in range(torch.cuda.device_count()) if torch.cuda.is_available() else ():
        free, total = torch.cuda.mem_get_info(number)
        gpus.append({"name": torch.cuda.get_device_name(number), "memory": total, "free": free})
    built = torch.version.cuda or torch.version.hip
    return {"device": choose_device("auto")[1], "gpus": gpus, "cuda": built, "cores": os.cpu_count(), "fault": None}


def cache() -> dict[str, Any]:
    """Where encoded texts and compiled code are kept, and how much it is."""
    from clew.core.files import cache_folder

    folder = cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {"folder": str(folder), "bytes": sum(path.stat().st_size for path in files), "files": len(files)}


def disks() -> list[dict[str, Any]]:
    """Free space where runs and caches are written."""
    from clew.core.files import cache_folder

    found = []
    for what, folder in (("runs", Path("runs")), ("cache", cache_folder())):
        there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        found.append(
            {
                "for": what,
                "folder": str(there),
                "free": shutil.disk_usage(there).free,
                "writable": os.access(there, os.W_OK),
            }
        )
    return found


def missing(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """What is not there, what it is for, and what to do; whether clew does nothing without it."""
    found = []
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
        found.append(
            {"what": what, "for": PURPOSES.get(extra, "clew itself"), "remedy": install, "needed": extra is None}
        )
    if facts["fault"]:
        found.append({"what": facts["fault"], "for": "clew itself", "remedy": "install torch again", "needed": True})
    if facts["compiler"] is None:
        remedy = "install g++ or clang"
        found.append(
            {"what": "a C++ compiler", "for": "training.compile=true on a CPU", "remedy": remedy, "needed": False}
        )
    for disk in facts["disks"]:
        if not disk["writable"] or disk["free"] < LITTLE:
            what = f"room in {disk['folder']}" if disk["writable"] else f"permission to write to {disk['folder']}"
            remedy = "choose another with --out" if disk["for"] == "runs" else "name another by CLEW_CACHE"
            found.append(
                {
                    "what": what,
                    "for": disk["for"],
                    "remedy": remedy,
                    "needed": not disk["writable"] and disk["for"] == "runs",
                }
            )
    return found


def lines_of(facts: dict[str, Any]) -> list[str]:
    there = {each["name"]: each["version"] for each in facts["packages"] if each["version"] is not None}
    rows = [
        ("clew", f"{facts['clew']}, Python {facts['python']}, {facts['platform']}"),
        (
            "packages",
            ", ".join(f"{name} {version}" for name, version in there.items())
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
    gaps = [[each["what"], each["for"], each["remedy"]] for each in facts["missing"]]
    return [*lines, "", *text_table(["missing", "for", "remedy"], gaps).splitlines()]
