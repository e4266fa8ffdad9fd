"""Import a checkpoint as a run: detect its format and read it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clew.core.errors import UserError
from clew.core.files import open_file
from clew.core.wording import argument
from clew.interop.elmo import is_elmo, read_elmo
from clew.interop.huggingface.folders import pickled
from clew.interop.huggingface.reading import is_huggingface, read_huggingface
from clew.interop.imported import Imported, Written, write_imported
from clew.interop.llama2c import is_llama2c, read_llama2c
from clew.runs.directory import check_empty
from clew.runs.folder.run_files import ORIGIN, is_run

PICKLED = {".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
READERS: tuple[tuple[Callable[[Path], bool], Callable[[Path], Imported]], ...] = (
    (is_huggingface, read_huggingface),
    (is_llama2c, read_llama2c),
    (is_elmo, read_elmo),
)
"""A detector and a reader for each checkpoint format. The first detector that accepts a path wins."""


def import_checkpoint(path: Path, out: Path | None = None, *, pairs: bool = False) -> Written:
    """Write a checkpoint as a run directory `out`, by default runs/NAME. Set `pairs` if its classifier reads two texts
    together, which no checkpoint format records."""
    if not path.exists():
        raise UserError(f"no such file or folder: {path}; give a checkpoint's folder, or a llama2.c file")
    if path.is_dir() and ((path / ORIGIN).is_file() or (is_run(path) and (path / "vocabulary").is_dir())):
        raise UserError(f"{path} is already a run of clew; use it directly")
    if path.is_file() and (path.suffix in PICKLED or first_bytes(path) in (b"PK", b"\x80\x02")):
        raise pickled(path)
    out = Path("runs") / name_of(path) if out is None else out
    check_empty(out)
    for is_known, read in READERS:
        if is_known(path):
            checkpoint = read(path)
            if pairs and not checkpoint.pairs:
                raise UserError(
                    f"{path}: only a classifier reads two texts together, and this is a {checkpoint.architecture};"
                    f" leave {argument('pairs', True)} out"
                )
            pair_settings = {"data": {"second": "second"}} if pairs else {}
            return write_imported(replace(checkpoint, settings={**checkpoint.settings, **pair_settings}), out, path)
    raise UserError(
        f"{path} is not a checkpoint that clew knows: a Hugging Face folder has a config.json, AllenNLP's ELMo an"
        " options.json, and a llama2.c checkpoint is a .bin file"
    )


def first_bytes(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(2)


def name_of(path: Path) -> str:
    """Return the last part of a path that names the model, skipping the `snapshots/HASH` of a hub cache."""
    path = path.resolve()
    if path.parent.name == "snapshots":
        path = path.parent.parent
    return (
        path.name.removesuffix(path.suffix if path.is_file() else "").replace("models--", "").replace("--", "-")
        or "imported"
    )
