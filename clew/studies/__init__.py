"""Searches over the settings of a recipe: each trial is a run, and Optuna says which settings to try next. Loads
nothing by itself."""

from pathlib import Path

STUDY = "study.json"
"""The file that makes a folder a search."""


def is_study(folder: Path) -> bool:
    return (folder / STUDY).is_file()
