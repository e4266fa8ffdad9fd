"""A stranger's run folder and a stranger's checkpoint folder: sizes, types, names, links, pipes and nesting that nobody
meant well.

A trial copies a good folder, changes one to three things in it, and uses it: a run by a verb, a checkpoint by importing
it. It ends in success or in one sentence, takes less than MEMORY, and reads nothing outside of the folder: neither by
Python, whose `open` is watched, nor by a library, which the time of the last reading of the files beside the folder
tells.
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

from benchmarks.faults.children import own_folder
from benchmarks.faults.trials import Fault, Result, Watch, put_through, watched
from clew.cli.main import main
from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.runs.loaded import load_run
from tests.interop import checkpoints, test_elmo, test_llama2c, test_marian


def made(folder: Path) -> Path:
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
    "ELMo": lambda folder: test_elmo.make(made(folder)),
    "llama2.c": lambda folder: test_llama2c.make(made(folder), tied=True),
}
MEMORY, LARGE = 2 * 2**30, 2**26
STORIES = "stories.bin"
SECRET = "secret"
"""The folder beside that of a trial, to which links and paths lead."""
SYSTEM = ("/proc", "/sys", "/dev/null", "/dev/urandom")
READ_ALWAYS = tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix, ROOT, *SYSTEM)))
"""Where Python and torch read whatever they do."""
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
    """What is done to which file, counted by a share of all of them; `chance` draws the rest."""

    name: str
    file: float
    chance: int


class Case(NamedTuple):
    kind: str
    subject: str
    verb: str
    edits: tuple[Edit, ...]


def run(count: int, seed: int, watch: Watch = watched) -> Result:
    with own_folder("strangers") as place, surroundings(place):
        fault = Fault(
            "strangers' folders",
            draw,
            lambda case: attempt(case, place),
            lambda case: described(case, place),
            smaller,
            seconds=20.0,
        )
        return put_through(fault, count, seed, watch)


@contextmanager
def surroundings(place: Path) -> Iterator[None]:
    """Good folders to copy, the files beside a trial's folder, and a cache and a list of runs of their own."""
    before = Path.cwd()
    for name, path in RUNS.items():
        shutil.copytree(path, place / "good" / "run" / name)
    for name, make in CHECKPOINTS.items():
        (place / "good" / "checkpoint").mkdir(exist_ok=True)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            make(place / "good" / "checkpoint" / name)
    (place / SECRET).mkdir()
    (place / SECRET / "file").write_text("root:x:0:0\n" * 20, encoding="utf-8")
    shutil.copytree(RUNS["format-1/masked_language_model"], place / SECRET / "run")
    for folder in FROZEN.glob("format-1/*"):  # what their configs name, and they are used from here
        shutil.copytree(folder, place / "here" / folder.name, ignore=shutil.ignore_patterns("run", "recorded.json"))
    with patch.dict(os.environ, {"CLEW_CACHE": str(place / "cache"), "CLEW_STATE": str(place / "state")}):
        try:
            yield
        finally:
            os.chdir(before)


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
    for place in range(len(case.edits) if len(case.edits) > 1 else 0):
        yield case._replace(edits=case.edits[:place] + case.edits[place + 1 :])


def described(case: Case, place: Path) -> str:
    done = [f"{edit.name} {edit.chance}" for edit in case.edits]
    with suppress(Exception):
        done = prepared(case, place)[1]
    return f"{case.verb} {case.kind} {case.subject}: {'; '.join(done)}"


def attempt(case: Case, place: Path) -> str:
    folder, _ = prepared(case, place)
    os.chdir(place / "here")
    (place / "here" / "asked.txt").write_text("the wall is [MASK]\n", encoding="utf-8")
    forget_peak()
    held = peak()
    untouch(place / SECRET)
    try:
        with watched_files() as opened, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
            return used(case, folder, place / "out")
    finally:
        allowed = (
            *READ_ALWAYS,
            *(os.path.realpath(place / name) for name in ("trial", "out", "out.partial", "cache", "state", "here")),
        )
        outside = [path for path in opened if not any(path == root or path.startswith(f"{root}/") for root in allowed)]
        assert not outside, f"read {Path(outside[0]).name} outside of the folder"
        assert not touched(place / SECRET), f"a library read {touched(place / SECRET)} outside of the folder"
        taken = peak() - held  # a process may hold what others left there
        assert taken < MEMORY, f"took {taken >> 30} GB of memory"


def used(case: Case, folder: Path, out: Path) -> str:
    """What became of it, in a word; a command that fails is a sentence of its own."""
    if case.kind == "checkpoint":
        import_checkpoint(folder / STORIES if case.subject == "llama2.c" else folder, out)
        load_run(out, device="cpu")
        return "imported"
    if case.verb == "load":
        load_run(folder, device="cpu")
        return "loaded"
    said, complained = io.StringIO(), io.StringIO()
    words = [str(folder if word == "RUN" else folder.parent if word == "." else word) for word in VERBS[case.verb]]
    with redirect_stdout(said), redirect_stderr(complained), patch.object(sys, "stdin", io.StringIO("")):
        try:
            status = main([*words, "--debug"])  # so that what the command would say in a line comes here as it is
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}") from None
    assert status == 0, complained.getvalue()
    return f"{case.verb} answered"


def prepared(case: Case, place: Path) -> tuple[Path, list[str]]:
    """The folder of a trial, and what was done to it, in words."""
    for name in ("trial", "out", "out.partial", "cache", "state"):
        shutil.rmtree(place / name, ignore_errors=True)
    folder = place / "trial" / "folder"
    folder.parent.mkdir()
    shutil.copytree(place / "good" / case.kind / case.subject, folder)
    done = []
    for edit in case.edits:
        there = (
            path
            for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink() and "checkpoints" not in path.parts
        )
        files = sorted(path for path in there if path.stat().st_size < LARGE)
        if edit.name == "a link":  # the file of llama2.c's is named by the user himself
            files = [path for path in files if path.name != STORIES]
        wanted = (
            [path for path in files if path.suffix in EDITS[edit.name].suffixes] if EDITS[edit.name].suffixes else files
        )
        if not wanted:
            continue
        path = wanted[int(edit.file * len(wanted))]
        with suppress(ValueError, RecursionError, OSError):  # of what an edit before it has left there
            done.append(
                f"{path.relative_to(folder)}: {EDITS[edit.name].edit(path, Random(edit.chance), place) or edit.name}"
            )
    unsealed(folder)
    return folder, done


def unsealed(folder: Path) -> None:
    """A stranger writes no hash that betrays him."""
    path = folder / "config.json"
    if path.is_file() and not path.is_symlink() and path.stat().st_size < LARGE:
        with suppress(ValueError, RecursionError):
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                content.pop("sha256", None)
                content.pop("files", None)
                path.write_text(json.dumps(content), encoding="utf-8")


def value_of(random: Random, before: Any) -> Any:
    """Often of the same type: what is wrong with it then is its size or its name."""
    kinds = [int, float, str, list, dict, None, bool]
    kind = type(before) if random.random() < 0.6 and type(before) in kinds else random.choice(kinds)
    if kind is int:
        return random.choice(NUMBERS)
    if kind is float:
        return random.choice(FLOATS)
    if kind is str:
        return random.choice(TEXTS)
    if kind is list:
        return random.choice(
            [[], [[]], [None] * 1000, before if isinstance(before, list) else [before], [random.choice(NUMBERS)] * 3]
        )
    if kind is dict:
        return random.choice(
            [{}, {"name": random.choice(TEXTS)}, {"x": before}, {random.choice(TEXTS): random.choice(NUMBERS)}]
        )
    return None if kind is None else random.choice([True, False])


def places_in(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key; of a long one a few."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys)[:40]:
        yield content, key
        yield from places_in(content[key])


def set_field(path: Path, random: Random, place: Path) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    among = list(places_in(content))
    if not among:
        path.write_text(json.dumps(value_of(random, content)), encoding="utf-8")
        return "another value"
    holder, key = random.choice(among)
    before, action = holder[key], random.random()
    if action < 0.1 and isinstance(holder, dict):
        del holder[key]
        what = "gone"
    elif action < 0.15 and isinstance(holder, dict):
        holder[random.choice(TEXTS)] = what = value_of(random, before)
    else:
        holder[key] = what = value_of(random, before)
    path.write_text(json.dumps(content), encoding="utf-8")
    return (
        f"{str(key)[:30]!r} is"
        f" {str(what)[:60] if not isinstance(what, int) or abs(what) < 10**30 else 'a long number'!r}"
    )


def set_record(path: Path, random: Random, place: Path) -> str:
    """A field of one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    number = random.randrange(len(lines))
    aside = path.with_name("line.json")
    aside.write_text(lines[number], encoding="utf-8")
    what = set_field(aside, random, place)
    lines[number] = aside.read_text(encoding="utf-8")
    aside.unlink()
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"line {number + 1}: {what}"


def set_path(path: Path, random: Random, place: Path) -> str:
    """Fields that name files."""
    content = json.loads(path.read_text(encoding="utf-8"))
    there = random.choice(
        [
            place / SECRET / "file",
            place / SECRET / "run",
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
        content[section][name] = str(there) if random.random() < 0.8 else [str(there), str(there)]
        if section == "data":
            content[section]["corpus"] = None
        if section == "transfer" and random.random() < 0.5:
            content[section] |= {"adapter": "lora", "sha256": None}
    path.write_text(json.dumps(content), encoding="utf-8")
    return f"{section}.{name} is {there}"


def nest(path: Path, random: Random, place: Path) -> None:
    opening = random.choice(["[", '{"a":'])
    path.write_text(opening * random.choice([500, 5000, 10**6]), encoding="utf-8")


def cut(path: Path, random: Random, place: Path) -> None:
    path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size + 1)])


def garble(path: Path, random: Random, place: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice([1, 3, 30])):
        if content:
            content[random.randrange(min(len(content), random.choice([16, 1000, len(content)])))] = random.randrange(
                256
            )
    path.write_bytes(content)


def grow(path: Path, random: Random, place: Path) -> str:
    size = random.choice([2**27, 2**31, 2**33])
    os.truncate(path, size)
    return f"of {size} bytes"


def remove(path: Path, random: Random, place: Path) -> None:
    path.unlink()


def pipe(path: Path, random: Random, place: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def listen(path: Path, random: Random, place: Path) -> None:
    path.unlink()
    os.chdir(path.parent)  # a socket's name is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(place)


def folder_for_file(path: Path, random: Random, place: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path, random: Random, place: Path) -> str:
    """To a good file elsewhere, so that whoever follows it has what he looks for; or to what never ends."""
    there = place / SECRET / "linked"
    shutil.copyfile(path, there)
    target = random.choice([there, there, there, Path("/dev/zero"), Path("/etc/passwd"), path, place / SECRET])
    path.unlink()
    path.symlink_to(os.path.relpath(target, path.parent) if random.random() < 0.5 else target)
    return f"is a link to {target.name}"


def link_folder(path: Path, random: Random, place: Path) -> str:
    """The folder that a file is in lies elsewhere."""
    if path.parent == place / "trial" / "folder":
        if path.name == STORIES:
            return "as it was"
        return link(path, random, place)
    shutil.rmtree(place / SECRET / "folder", ignore_errors=True)
    shutil.move(path.parent, place / SECRET / "folder")
    path.parent.symlink_to(place / SECRET / "folder")
    return "is in a folder elsewhere"


def add(path: Path, random: Random, place: Path) -> str:
    """A file that means something to whoever looks for it."""
    outside = str(random.choice(["../../secret/file", place / SECRET / "file", "../../secret/run"]))
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


def tensor_head(path: Path, random: Random, place: Path) -> str:
    """What a file of safetensors says of its tensors."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    name = random.choice([key for key in head if key != "__metadata__"] or ["none"])
    about = head.setdefault(name, {})
    what = random.choice(["dtype", "shape", "offsets", "rename", "gone", "huge", "length", "metadata"])
    if what == "dtype":
        about["dtype"] = random.choice(["F64", "F16", "BF16", "I64", "I8", "U8", "BOOL", "F8_E4M3", "C64", "X", 5])
    elif what == "shape":
        about["shape"] = random.choice([[], [0], [1], [-1], [2**40], [2**63], [2**32, 2**32], [1] * 100, "x", [1.5]])
    elif what == "offsets":
        about["data_offsets"] = random.choice([[0, 0], [0, 2**62], [5, 4], [-1, 4], [0]])
    elif what == "rename":
        head[random.choice(TEXTS)] = head.pop(name)
    elif what == "gone":
        del head[name]
    elif what == "huge":  # zeros that take no room on the disk
        head = {name: {"dtype": "F32", "shape": [2**29], "data_offsets": [0, 2**31]}}
    elif what == "metadata":
        head["__metadata__"] = random.choice([{}, {"sha256": "x"}, {"format": "\x1b"}, 5])
    written = json.dumps(head).encode()
    length = random.choice([2**63, 2**30, 0]) if what == "length" else len(written)
    path.write_bytes(length.to_bytes(8, "little") + written + content[8 + size :])
    if what == "huge":
        os.truncate(path, 8 + len(written) + 2**31)
    return f"{what} of {name[:40]}"


class Editing(NamedTuple):
    edit: Callable[[Path, Random, Path], str | None]
    suffixes: tuple[str, ...] = ()


EDITS = {
    "field": Editing(set_field, (".json",)),
    "record": Editing(set_record, (".jsonl",)),
    "path": Editing(set_path, (".json",)),
    "head": Editing(tensor_head, (".safetensors",)),
    "nested": Editing(nest),
    "cut": Editing(cut),
    "garbled": Editing(garble),
    "grown": Editing(grow),
    "removed": Editing(remove),
    "a pipe": Editing(pipe),
    "a socket": Editing(listen),
    "a folder": Editing(folder_for_file),
    "a link": Editing(link),
    "a linked folder": Editing(link_folder),
    "added": Editing(add),
}
COMMON = ("field", "record", "head", "path")

OPENED: list[list[str]] = []


def audit(event: str, arguments: Any) -> None:
    if event == "open" and OPENED and isinstance(arguments[0], (str, bytes)):
        OPENED[-1].append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(audit)


@contextmanager
def watched_files() -> Iterator[list[str]]:
    """Where the files really are that Python opens within this context."""
    OPENED.append([])
    try:
        yield OPENED[-1]
    finally:
        OPENED.pop()


def untouch(folder: Path) -> None:
    """As if nobody had read the files since they were written: a system notes the first reading after that, if any."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 2))


def touched(folder: Path) -> str:
    """A file that was read since; none, where the system does not note it."""
    return next((path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_atime != 1), "")


def forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most memory that this process had since, in bytes; 0 where it cannot be told."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    return 0
