"""From a path to a run: what kind of checkpoint it is, and who reads it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clew.core.errors import UserError
from clew.core.files import open_file
from clew.interop.elmo import is_elmo, read_elmo
from clew.interop.huggingface.folders import pickled
from clew.interop.huggingface.reading import is_huggingface, read_huggingface
from clew.interop.imported import Imported, Written, write_imported
from clew.interop.llama2c import is_llama2c, read_llama2c
from clew.runs.directory import ORIGIN, check_empty, is_run

PICKLED = {".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
READERS: tuple[tuple[Callable[[Path], bool], Callable[[Path], Imported]], ...] = (
    (is_huggingface, read_huggingface),
    (is_llama2c, read_llama2c),
    (is_elmo, read_elmo),
)
"""How a kind of checkpoint is told, and what reads it; the first that knows a path is taken."""


def import_checkpoint(path: Path, out: Path | None = None, *, pairs: bool = False) -> Written:
    """Writes a checkpoint as a run directory: `out`, or runs/NAME where not given. `pairs` says what no checkpoint does: that its
    classifier judges two texts together."""
    if not path.exists():
        raise UserError(f"no such file or folder: {path}; give a checkpoint's folder, or a llama2.c file")
    if path.is_dir() and ((path / ORIGIN).is_file() or (is_run(path) and (path / "vocabulary").is_dir())):
        raise UserError(f"{path} is a run of clew's already; use it as it is")
    if path.is_file() and (path.suffix in PICKLED or first_bytes(path) in (b"PK", b"\x80\x02")):
        raise pickled(path)
    out = Path("runs") / name_of(path) if out is None else out
    check_empty(out)
    for is_known, read in READERS:
        if is_known(path):
            found = read(path)
            if pairs and not found.pairs:
                raise UserError(
                    f"{path}: two texts are judged together by classifiers, and this is a {found.architecture}; leave --pairs out"
                )
            more = {"data": {"second": "second"}} if pairs else {}
            return write_imported(replace(found, settings={**found.settings, **more}), out, path)
    raise UserError(
        f"{path} is no checkpoint that clew knows: a Hugging Face folder has a config.json, AllenNLP's ELMo an options.json, "
        "and a llama2.c checkpoint is a .bin file"
    )


def first_bytes(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(2)


def name_of(path: Path) -> str:
    """The last part of a path that names something: `snapshots/HASH` of a cache does not."""
    path = path.resolve()
    if path.parent.name == "snapshots":
        path = path.parent.parent
    return path.name.removesuffix(path.suffix if path.is_file() else "").replace("models--", "").replace("--", "-") or "imported"
