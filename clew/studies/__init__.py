"""Searches over the settings of a recipe: each trial is a run, and Optuna chooses the settings of the next trial. The
package imports nothing by itself."""

from pathlib import Path

STUDY = "study.json"
"""The file that marks a folder as a search."""


def is_study(folder: Path) -> bool:
    return (folder / STUDY).is_file()
