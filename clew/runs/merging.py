"""Merge an adapter into its base run: the result is one run that depends on no other."""

import shutil
from pathlib import Path

from clew.core.errors import UserError
from clew.core.wording import argument
from clew.layers.adapters import is_adapted, merge
from clew.runs.directory import check_empty, write_config, write_weights
from clew.runs.folder.run_files import CODE, ENVIRONMENT, METRICS, WEIGHTS
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run, load_run
from clew.runs.trust import trust_like


def merge_run(folder: Path, out: Path, *, code: Path | None = None) -> Run:
    """Write the merged run to `out`; its metrics are those of the adapter's training."""
    check_empty(out)
    run = load_run(folder, device="cpu", code=code)
    if not is_adapted(run.task):
        raise UserError(f"{folder} has no adapter to merge: its weights are already complete")
    merge(run.task)
    config = run.config.model_copy(update={"transfer": run.config.transfer.model_copy(update={"adapter": None})})
    try:
        out.mkdir(parents=True, exist_ok=True)
        save_vocabularies(out, run.vocabularies)
        for name in (METRICS, ENVIRONMENT, CODE):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, out / name)
        write_weights(out / WEIGHTS, run.task.state_dict())
        write_config(out, config)
        trust_like(out, [folder])
    except OSError as error:
        raise UserError(
            f"cannot write the merged run to {out}: {error.strerror or error}; choose another folder with"
            f" {argument('out')}"
        ) from None
    return Run(out, config, run.vocabularies, run.task)
