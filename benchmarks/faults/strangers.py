"""Untrusted run and checkpoint folders with hostile sizes, types, names, links, pipes and nesting.

A trial copies a good folder, changes one to three things in it, and uses it: a verb is applied to a run, a checkpoint
is imported. It must end in success or in a one-sentence error message, take less than MEMORY, and read nothing outside
the folder. Reads by Python are watched with an audit hook; reads by libraries are detected by the access times of files
beside the folder.
"""

import io
import json
import math
import os
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.faults.children import temporary_folder
from benchmarks.faults.trials import Fault, Result, Runner, run_in_child, run_trials
from clew.cli.main import main
from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.runs.loaded import load_run
from tests.interop import checkpoints, test_elmo, test_llama2c, test_marian


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


ROOT = Path(__file__).parents[2]
FROZEN = ROOT / "tests" / "runs" / "frozen"
RUNS = {
    f"{folder.parent.name}/{folder.name}": folder / "run"
    for folder in sorted(FROZEN.glob("format-*/*"))
    if (folder / "run").is_dir() and not (folder / "run" / "code.py").exists()
}
CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    **{
        name: lambda folder, name=name: checkpoints.make(name, folder)
        for name in (
            "BertForMaskedLM",
            "BertForSequenceClassification",
            "BertForTokenClassification",
            "DistilBertForQuestionAnswering",
            "RobertaForMaskedLM",
            "GPT2LMHeadModel",
            "LlamaForCausalLM",
        )
    },
    "Marian": test_marian.make_marian,
    "ELMo": lambda folder: test_elmo.make(make_folder(folder)),
    "llama2.c": lambda folder: test_llama2c.make(make_folder(folder), tied=True),
}
MEMORY, LARGE = 2 * 2**30, 2**26
STORIES = "stories.bin"
SECRET = "secret"
"""The folder outside that of a trial to which links and paths lead."""
SYSTEM = ("/proc", "/sys", "/dev/null", "/dev/urandom")
READ_ALWAYS = tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix, ROOT, *SYSTEM)))
"""Folders that Python and torch always read."""
VERBS = {
    "load": [],
    "evaluate": ["evaluate", "RUN", "--device", "cpu"],
    "runs": ["runs", ".", "--json"],
    "describe": ["describe", "RUN"],
    "look": ["look", "RUN", "--device", "cpu"],
    "errors": ["look", "errors", "RUN", "--device", "cpu"],
    "curves": ["look", "curves", "RUN", "--device", "cpu"],
    "predict": ["predict", "RUN", "asked.txt", "--json", "--device", "cpu"],
    "compare": ["compare", "RUN", "RUN"],
    "export": ["export", "RUN", "--to", "hf", "--out", "../out"],
}
NUMBERS = [
    0,
    -1,
    1,
    2,
    3,
    7,
    10**3,
    10**5,
    10**7,
    10**9,
    2**31,
    2**32,
    10**12,
    2**62,
    2**63,
    10**30,
    10**400,
    -(10**12),
]
TEXTS = [
    "",
    "x",
    "\x1b[31m",
    "\u202e",
    "a\x00b",
    "\udc80",
    "x" * 10**5,
    "nan",
    "{}",
    "cuda",
    "lstm",
    "../secret/file",
    "/etc/passwd",
    "~root",
]
FLOATS = [0.0, -1.0, 0.5, 1e-30, 1e30, 1e308, math.inf, -math.inf, math.nan]


class Edit(NamedTuple):
    """A kind of edit, its file as a share of the sorted files, and the seed of the edit."""

    name: str
    file: float
    seed: int


class Case(NamedTuple):
    kind: str
    subject: str
    verb: str
    edits: tuple[Edit, ...]


def run(count: int, seed: int, runner: Runner = run_in_child) -> Result:
    with temporary_folder("strangers") as workspace, surroundings(workspace):
        fault = Fault(
            "strangers' folders",
            draw,
            lambda case: attempt(case, workspace),
            lambda case: describe(case, workspace),
            smaller,
            seconds=20.0,
        )
        return run_trials(fault, count, seed, runner)


@contextmanager
def surroundings(workspace: Path) -> Iterator[None]:
    """Create good folders to copy, files outside the folder of a trial, and a separate cache and list of runs."""
    working_folder = Path.cwd()
    for name, path in RUNS.items():
        shutil.copytree(path, workspace / "good" / "run" / name)
    for name, make in CHECKPOINTS.items():
        (workspace / "good" / "checkpoint").mkdir(exist_ok=True)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            make(workspace / "good" / "checkpoint" / name)
    (workspace / SECRET).mkdir()
    (workspace / SECRET / "file").write_text("root:x:0:0\n" * 20, encoding="utf-8")
    shutil.copytree(RUNS["format-1/masked_language_model"], workspace / SECRET / "run")
    for folder in FROZEN.glob("format-1/*"):  # files named by configs; trials run in `here`
        shutil.copytree(folder, workspace / "here" / folder.name, ignore=shutil.ignore_patterns("run", "recorded.json"))
    with patch.dict(os.environ, {"CLEW_CACHE": str(workspace / "cache"), "CLEW_STATE": str(workspace / "state")}):
        try:
            yield
        finally:
            os.chdir(working_folder)


def draw(random: Random) -> Case:
    kind = random.choice(["run", "checkpoint"])
    subject = random.choice(list(RUNS if kind == "run" else CHECKPOINTS))
    verb = random.choice(list(VERBS)) if kind == "run" else "import"
    names = [name for name in EDITS for _ in range(4 if name in COMMON else 1)]
    edits = [
        Edit(random.choice(names), random.random(), random.randrange(2**32)) for _ in range(random.choice([1, 1, 2, 3]))
    ]
    return Case(kind, subject, verb, tuple(edits))


def smaller(case: Case) -> Iterator[Case]:
    for index in range(len(case.edits) if len(case.edits) > 1 else 0):
        yield case._replace(edits=case.edits[:index] + case.edits[index + 1 :])


def describe(case: Case, workspace: Path) -> str:
    changes = [f"{edit.name} {edit.seed}" for edit in case.edits]
    with suppress(Exception):
        changes = prepare(case, workspace)[1]
    return f"{case.verb} {case.kind} {case.subject}: {'; '.join(changes)}"


def attempt(case: Case, workspace: Path) -> str:
    folder, _ = prepare(case, workspace)
    os.chdir(workspace / "here")
    (workspace / "here" / "asked.txt").write_text("the wall is [MASK]\n", encoding="utf-8")
    reset_peak()
    peak_before = peak_bytes()
    reset_access_times(workspace / SECRET)
    try:
        with watched_files() as opened, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
            return use(case, folder, workspace / "out")
    finally:
        allowed = (
            *READ_ALWAYS,
            *(os.path.realpath(workspace / name) for name in ("trial", "out", "out.partial", "cache", "state", "here")),
        )
        outside = [path for path in opened if not any(path == root or path.startswith(f"{root}/") for root in allowed)]
        assert not outside, f"read {Path(outside[0]).name} outside the folder"
        assert not find_read_file(workspace / SECRET), (
            f"a library read {find_read_file(workspace / SECRET)} outside the folder"
        )
        growth = peak_bytes() - peak_before  # earlier trials may have left memory in use
        assert growth < MEMORY, f"took {growth >> 30} GB of memory"


def use(case: Case, folder: Path, out: Path) -> str:
    """Use the folder of a case, and return the outcome. If a command fails, its error message is raised."""
    if case.kind == "checkpoint":
        import_checkpoint(folder / STORIES if case.subject == "llama2.c" else folder, out)
        load_run(out, device="cpu")
        return "imported"
    if case.verb == "load":
        load_run(folder, device="cpu")
        return "loaded"
    stdout, stderr = io.StringIO(), io.StringIO()
    arguments = [str(folder if word == "RUN" else folder.parent if word == "." else word) for word in VERBS[case.verb]]
    with redirect_stdout(stdout), redirect_stderr(stderr), patch.object(sys, "stdin", io.StringIO("")):
        try:
            status = main([*arguments, "--debug"])  # --debug raises errors instead of printing them
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}") from None
    assert status == 0, stderr.getvalue()
    return f"{case.verb} answered"


def prepare(case: Case, workspace: Path) -> tuple[Path, list[str]]:
    """Create the folder of a trial, and return it with a description of its changes."""
    for name in ("trial", "out", "out.partial", "cache", "state"):
        shutil.rmtree(workspace / name, ignore_errors=True)
    folder = workspace / "trial" / "folder"
    folder.parent.mkdir()
    shutil.copytree(workspace / "good" / case.kind / case.subject, folder)
    changes = []
    for edit in case.edits:
        candidates = (
            path
            for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink() and "checkpoints" not in path.parts
        )
        files = sorted(path for path in candidates if path.stat().st_size < LARGE)
        if edit.name == "a link":  # the user names llama2.c's file explicitly
            files = [path for path in files if path.name != STORIES]
        if suffixes := EDITS[edit.name].suffixes:
            files = [path for path in files if path.suffix in suffixes]
        if not files:
            continue
        path = files[int(edit.file * len(files))]
        with suppress(ValueError, RecursionError, OSError):  # an earlier edit may have made the file unusable
            changes.append(
                f"{path.relative_to(folder)}: {EDITS[edit.name].edit(path, Random(edit.seed), workspace) or edit.name}"
            )
    remove_hashes(folder)
    return folder, changes


def remove_hashes(folder: Path) -> None:
    """Remove the hashes from the config, as an attacker would, so that changes are not detected by them."""
    path = folder / "config.json"
    if path.is_file() and not path.is_symlink() and path.stat().st_size < LARGE:
        with suppress(ValueError, RecursionError):
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                content.pop("sha256", None)
                content.pop("files", None)
                path.write_text(json.dumps(content), encoding="utf-8")


def hostile_value(random: Random, old: Any) -> Any:
    """Draw a hostile value, often of the same type as the old one."""
    kinds = [int, float, str, list, dict, None, bool]
    kind = type(old) if random.random() < 0.6 and type(old) in kinds else random.choice(kinds)
    if kind is int:
        return random.choice(NUMBERS)
    if kind is float:
        return random.choice(FLOATS)
    if kind is str:
        return random.choice(TEXTS)
    if kind is list:
        return random.choice(
            [[], [[]], [None] * 1000, old if isinstance(old, list) else [old], [random.choice(NUMBERS)] * 3]
        )
    if kind is dict:
        return random.choice(
            [{}, {"name": random.choice(TEXTS)}, {"x": old}, {random.choice(TEXTS): random.choice(NUMBERS)}]
        )
    return None if kind is None else random.choice([True, False])


def walk_fields(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container and key, for long containers only the first keys."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys)[:40]:
        yield content, key
        yield from walk_fields(content[key])


def set_field(path: Path, random: Random, workspace: Path) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    fields = list(walk_fields(content))
    if not fields:
        path.write_text(json.dumps(hostile_value(random, content)), encoding="utf-8")
        return "another value"
    container, key = random.choice(fields)
    old, action = container[key], random.random()
    if action < 0.1 and isinstance(container, dict):
        del container[key]
        change = "removed"
    elif action < 0.15 and isinstance(container, dict):
        container[random.choice(TEXTS)] = change = hostile_value(random, old)
    else:
        container[key] = change = hostile_value(random, old)
    path.write_text(json.dumps(content), encoding="utf-8")
    return (
        f"{str(key)[:30]!r} is"
        f" {str(change)[:60] if not isinstance(change, int) or abs(change) < 10**30 else 'a long number'!r}"
    )


def set_record(path: Path, random: Random, workspace: Path) -> str:
    """Change a field of one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    number = random.randrange(len(lines))
    temporary = path.with_name("line.json")
    temporary.write_text(lines[number], encoding="utf-8")
    change = set_field(temporary, random, workspace)
    lines[number] = temporary.read_text(encoding="utf-8")
    temporary.unlink()
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"line {number + 1}: {change}"


def set_path(path: Path, random: Random, workspace: Path) -> str:
    """Change a field that names a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    target = random.choice(
        [
            workspace / SECRET / "file",
            workspace / SECRET / "run",
            "../../secret/file",
            "../../secret/run",
            "/etc/passwd",
            "/dev/zero",
        ]
    )
    section = random.choice(["data", "data", "data", "embedding", "transfer"])
    name = {
        "data": random.choice(["train", "valid", "test"]),
        "embedding": random.choice(["vectors", "from"]),
        "transfer": "from",
    }[section]
    if isinstance(content, dict) and isinstance(content.get(section), dict):
        content[section][name] = str(target) if random.random() < 0.8 else [str(target), str(target)]
        if section == "data":
            content[section]["corpus"] = None
        if section == "transfer" and random.random() < 0.5:
            content[section] |= {"adapter": "lora", "sha256": None}
    path.write_text(json.dumps(content), encoding="utf-8")
    return f"{section}.{name} is {target}"


def nest(path: Path, random: Random, workspace: Path) -> None:
    opening = random.choice(["[", '{"a":'])
    path.write_text(opening * random.choice([500, 5000, 10**6]), encoding="utf-8")


def cut(path: Path, random: Random, workspace: Path) -> None:
    path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size + 1)])


def garble(path: Path, random: Random, workspace: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice([1, 3, 30])):
        if content:
            content[random.randrange(min(len(content), random.choice([16, 1000, len(content)])))] = random.randrange(
                256
            )
    path.write_bytes(content)


def grow(path: Path, random: Random, workspace: Path) -> str:
    size = random.choice([2**27, 2**31, 2**33])
    os.truncate(path, size)
    return f"of {size} bytes"


def remove(path: Path, random: Random, workspace: Path) -> None:
    path.unlink()


def pipe(path: Path, random: Random, workspace: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def listen(path: Path, random: Random, workspace: Path) -> None:
    path.unlink()
    os.chdir(path.parent)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(workspace)


def folder_for_file(path: Path, random: Random, workspace: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path, random: Random, workspace: Path) -> str:
    """Replace a file by a link: to a valid file elsewhere, to a folder, to itself, or to a device without end."""
    copied = workspace / SECRET / "linked"
    shutil.copyfile(path, copied)
    target = random.choice([copied, copied, copied, Path("/dev/zero"), Path("/etc/passwd"), path, workspace / SECRET])
    path.unlink()
    path.symlink_to(os.path.relpath(target, path.parent) if random.random() < 0.5 else target)
    return f"is a link to {target.name}"


def link_folder(path: Path, random: Random, workspace: Path) -> str:
    """Move the folder of a file elsewhere, and link to it."""
    if path.parent == workspace / "trial" / "folder":
        if path.name == STORIES:
            return "unchanged"
        return link(path, random, workspace)
    shutil.rmtree(workspace / SECRET / "folder", ignore_errors=True)
    shutil.move(path.parent, workspace / SECRET / "folder")
    path.parent.symlink_to(workspace / SECRET / "folder")
    return "is in a folder elsewhere"


def add(path: Path, random: Random, workspace: Path) -> str:
    """Add a file whose name has a meaning for some reader."""
    outside = str(random.choice(["../../secret/file", workspace / SECRET / "file", "../../secret/run"]))
    name, content = random.choice(
        [
            ("model.safetensors.index.json", json.dumps({"weight_map": {"a": outside, "b": f"{outside}.safetensors"}})),
            (
                "modules.json",
                json.dumps(
                    [{"type": "models.Transformer", "path": outside}, {"type": "models.Pooling", "path": outside}]
                ),
            ),
            ("pytorch_model.bin", "\x80\x02cos\nsystem\n"),
            (
                "generation_config.json",
                json.dumps({"max_length": random.choice(NUMBERS), "eos_token_id": random.choice(NUMBERS)}),
            ),
            (
                "tokenizer_config.json",
                json.dumps({"do_lower_case": 3, "bos_token": {"content": 5}, "unk_token": outside}),
            ),
            ("special_tokens_map.json", "[" * 3000),
            ("metrics.jsonl", '{"step": 1e999}\n{"step": "x"}\n[]\n{"best.step": -1}\n'),
            ("predictions.jsonl", '{"id": 1, "score": "x"}\n'),
            ("code.py", "raise SystemExit('obeyed')"),
            ("lock", "{}"),
            ("origin.json", json.dumps({"architecture": 5})),
            ("environment.json", "[]"),
        ]
    )
    (path.parent / name).unlink(missing_ok=True)
    (path.parent / name).write_text(content, encoding="utf-8")
    if name.endswith("index.json") and random.random() < 0.5:
        (path.parent / "model.safetensors").unlink(missing_ok=True)
    return f"{name} beside it"


def edit_header(path: Path, random: Random, workspace: Path) -> str:
    """Change the header of a safetensors file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    fields = json.loads(content[8 : 8 + size])
    name = random.choice([key for key in fields if key != "__metadata__"] or ["none"])
    entry = fields.setdefault(name, {})
    change = random.choice(["dtype", "shape", "offsets", "rename", "gone", "huge", "length", "metadata"])
    if change == "dtype":
        entry["dtype"] = random.choice(["F64", "F16", "BF16", "I64", "I8", "U8", "BOOL", "F8_E4M3", "C64", "X", 5])
    elif change == "shape":
        entry["shape"] = random.choice([[], [0], [1], [-1], [2**40], [2**63], [2**32, 2**32], [1] * 100, "x", [1.5]])
    elif change == "offsets":
        entry["data_offsets"] = random.choice([[0, 0], [0, 2**62], [5, 4], [-1, 4], [0]])
    elif change == "rename":
        fields[random.choice(TEXTS)] = fields.pop(name)
    elif change == "gone":
        del fields[name]
    elif change == "huge":  # sparse: zeros take no space on the disk
        fields = {name: {"dtype": "F32", "shape": [2**29], "data_offsets": [0, 2**31]}}
    elif change == "metadata":
        fields["__metadata__"] = random.choice([{}, {"sha256": "x"}, {"format": "\x1b"}, 5])
    header = json.dumps(fields).encode()
    length = random.choice([2**63, 2**30, 0]) if change == "length" else len(header)
    path.write_bytes(length.to_bytes(8, "little") + header + content[8 + size :])
    if change == "huge":
        os.truncate(path, 8 + len(header) + 2**31)
    return f"{change} of {name[:40]}"


class EditKind(NamedTuple):
    edit: Callable[[Path, Random, Path], str | None]
    suffixes: tuple[str, ...] = ()


EDITS = {
    "field": EditKind(set_field, (".json",)),
    "record": EditKind(set_record, (".jsonl",)),
    "path": EditKind(set_path, (".json",)),
    "head": EditKind(edit_header, (".safetensors",)),
    "nested": EditKind(nest),
    "cut": EditKind(cut),
    "garbled": EditKind(garble),
    "grown": EditKind(grow),
    "removed": EditKind(remove),
    "a pipe": EditKind(pipe),
    "a socket": EditKind(listen),
    "a folder": EditKind(folder_for_file),
    "a link": EditKind(link),
    "a linked folder": EditKind(link_folder),
    "added": EditKind(add),
}
COMMON = ("field", "record", "head", "path")

OPENED_FILES: list[list[str]] = []


def record_open(event: str, arguments: Any) -> None:
    if event == "open" and OPENED_FILES and isinstance(arguments[0], (str, bytes)):
        OPENED_FILES[-1].append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(record_open)


@contextmanager
def watched_files() -> Iterator[list[str]]:
    """Yield a list of the real paths of all files that Python opens within this context."""
    OPENED_FILES.append([])
    try:
        yield OPENED_FILES[-1]
    finally:
        OPENED_FILES.pop()


def reset_access_times(folder: Path) -> None:
    """Set old access times, so that the system records the next read of each file."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 2))


def find_read_file(folder: Path) -> str:
    """Return the name of a file that was read, or an empty string. Some systems do not record access times."""
    return next((path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_atime != 1), "")


def reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the peak memory of this process since the reset in bytes, or 0 if it is unknown."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    return 0
