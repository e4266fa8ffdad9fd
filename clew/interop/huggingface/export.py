"""Export to `transformers`: the folder with its model card."""

from pathlib import Path

from clew.core.files import read_json, write_text
from clew.interop.huggingface.folders import CONFIG
from clew.interop.huggingface.forms import FORMS
from clew.interop.huggingface.writing import write_huggingface
from clew.interop.model_card import model_card
from clew.interop.options import ExportOptions
from clew.runs.loaded import Run


def export_huggingface(run: Run, folder: Path, options: ExportOptions) -> None:
    write_huggingface(run, folder)
    form, name = FORMS[run.config.task.name], read_json(folder / CONFIG)["architectures"][0]
    form.extra_files(run, folder)
    write_text(
        folder / "README.md", model_card(run, library="transformers", usage=form.usage(run, name), options=options)
    )
