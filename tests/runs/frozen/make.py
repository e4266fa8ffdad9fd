"""Make frozen runs: `python -m tests.runs.frozen.make FOLDER [NAME ...]`.

There is a run for every task, and for every way in which a run can be stored. Each is trained twice: once to its end,
and once until Ctrl-C interrupts it. The interrupted run is kept with its checkpoint; the metrics of the uninterrupted
run and the answers of the interrupted one are recorded beside it. Existing frozen runs are never made again; a new
format gets new ones.

FOLDER/NAME/          the data that a run learns from
FOLDER/NAME/run/      the run directory
FOLDER/NAME/recorded.json
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.multiprocessing import start_processes

import clew
from clew.cli.options.code import load_code
from clew.core.files import read_json, write_json
from clew.instruments import INSTRUMENTS
from clew.interop.checkpoints import import_checkpoint
from clew.interop.huggingface.sentence_folders import write_sentence_files
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.tasks.representation import RepresentationConfig
from clew.training.checkpoints import checkpoint_folders
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.runs.frozen.asking import ask, command, plain, rounded
from tests.runs.frozen.settings import FROZEN, LOOKS, MORE, SCORED, STEPS, STOP, Frozen


def imported(name: str) -> None:
    """Export the body of the masked language model as a sentence-transformers folder, and import that."""
    base = clew.load("masked_language_model/run", device="cpu")
    shutil.rmtree("exported", ignore_errors=True)
    assert command("export", str(base.folder), "--to", "hf", "--out", "exported").status == 0
    weights, config = Path("exported/model.safetensors"), Path("exported/config.json")
    save_file(
        {key: tensor for key, tensor in load_file(weights).items() if key.startswith("bert.")},
        weights,
        {"format": "pt"},
    )
    write_json(config, {**read_json(config), "architectures": ["BertModel"]})
    write_sentence_files(Path("exported"), RepresentationConfig(pooling="mean", normalise=True), base.task.body.dim, 24)
    import_checkpoint(Path("exported"), Path(name) / "run")
    shutil.rmtree("exported")


def pruned(name: str) -> None:
    """Prune two of the four heads of the language model."""
    result = command("prune", "language_model/run", "--off", "1.2", "2.1", "--out", f"{name}/run")
    assert result.status == 0, result.err


MAKERS = {"imported": imported, "pruned": pruned}


class Stopping(Silence):
    """Interrupts training at a step, as Ctrl-C does."""

    def step(self, record: Any, steps: int, tokens_per_second: float) -> None:
        if record.step == STOP:
            os.kill(os.getpid(), signal.SIGINT)


def train(
    frozen: Frozen, name: str, out: str, *, stop: bool = False, resume: bool = False, more: tuple[str, ...] = ()
) -> Path:
    folder = Path(name) / out
    code = None if frozen.code is None else Path(name) / frozen.code
    settings = [] if resume else frozen.settings
    if code is not None:
        load_code(code)
    try:
        run_recipe(
            frozen.recipe, [*settings, *more], out=folder, resume=resume, code=code, report=Stopping() if stop else None
        )
    except Interrupted:
        assert stop
    return folder


def train_share(rank: int, processes: int, name: str, out: str, stop: bool) -> None:
    """Train in one of several processes, started as torchrun starts them."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getppid() % 20000))
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
    train(FROZEN[name], name, out, stop=stop)
    os._exit(0)  # threads of the interrupted group would abort the process


def write_data(name: str) -> None:
    Path(name).mkdir(exist_ok=True)
    for file, content in FROZEN[name].files.items():
        (Path(name) / file).parent.mkdir(parents=True, exist_ok=True)
        (Path(name) / file).write_bytes(content if isinstance(content, bytes) else content.encode())


def make(name: str) -> None:
    """Make the run that is kept, and record the metrics of the uninterrupted run and the answers of the kept one."""
    frozen, folder = FROZEN[name], Path(name)
    shutil.rmtree(folder / "run", ignore_errors=True)
    recorded: dict[str, Any] = {"recipe": frozen.recipe}
    if frozen.maker is not None:
        MAKERS[frozen.maker](name)
    else:
        recorded["resumed"] = train_twice(frozen, name)
    strip(folder / "run")
    recorded |= answers(frozen, name)
    write_compact(folder / "recorded.json", recorded)


def train_twice(frozen: Frozen, name: str) -> dict[str, Any]:
    """Train the run twice, and check that the interrupted one resumes to the same weights as the other."""
    more = (f"training.steps={STEPS + MORE}",) if frozen.finished else ()
    more += ("training.log_every=1",)
    if frozen.processes > 1:
        for out, stop in (("run", True), ("whole", False)):
            start_processes(
                train_share, args=(frozen.processes, name, out, stop), nprocs=frozen.processes, start_method="spawn"
            )
        kept, whole = Path(name) / "run", Path(name) / "whole"
    else:
        kept = train(frozen, name, "run", stop=not frozen.finished)
        whole = train(frozen, name, "whole", more=more)
    shutil.copytree(kept, Path(name) / "again")
    again = train(frozen, name, "again", resume=True, more=more)
    is_alone = frozen.processes == 1  # sums over several processes differ in the last bits
    for path in ("model.safetensors", f"checkpoints/{checkpoint_folders(again)[0].name}/model.safetensors"):
        one, other = (read_weights(each / path) for each in (whole, again)) if is_alone else ({}, {})
        assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one), (name, path)
    step = json.loads((checkpoint_folders(kept)[0] / "training.json").read_text())["step"]
    metrics = [record for record in read_metrics(again if frozen.processes > 1 else whole) if record["step"] > step]
    for folder in (whole, again):
        shutil.rmtree(folder)
    dropout = any("dropout" in setting and not setting.endswith("=0") for setting in frozen.settings)
    return {
        "from": step,
        "settings": list(more),
        "metrics": rounded_metrics(metrics),
        "draws": dropout_mask() if dropout else None,
    }


def dropout_mask() -> list[int]:
    """The mask that dropout draws from a fixed seed; it may depend on the version of torch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return [int(kept) for kept in torch.nn.functional.dropout(torch.ones(32), 0.5) > 0]


def rounded_metrics(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every record without its timings and memory, rounded to six digits."""
    omitted = ("tokens_per_second", "seconds", "peak_memory")
    return [{key: float(f"{value:.6g}") for key, value in each.items() if key not in omitted} for each in records]


def strip(folder: Path) -> None:
    """Remove files that nothing needs, and the description of the machine."""
    shutil.rmtree(folder / "events", ignore_errors=True)
    for name in ("lock", "pruning.html"):
        (folder / name).unlink(missing_ok=True)
    facts = read_json(folder / "environment.json")
    write_json(folder / "environment.json", {**facts, "platform": "Linux", "hardware": "x86_64"})


def answers(frozen: Frozen, name: str) -> dict[str, Any]:
    """The answers of the kept run, from Python and from the command line."""
    folder = f"{name}/run"
    code = [] if frozen.code is None else ["--code", f"{folder}/code.py"]
    run = clew.load(folder, device="cpu", code=code[-1] if code else None)
    questions = [
        {"method": method, "arguments": arguments, "options": options} for method, arguments, options in frozen.asks
    ]
    recorded: dict[str, Any] = {
        "python": [{**each, "answer": rounded(ask(run, *each.values()))} for each in questions],
        "commands": [],
    }

    def record(*words: str) -> None:
        result = command(*words, *code)
        assert result.status == 0, (words, result.err)
        # Leave out the text of a score.
        objects = [
            {key: value for key, value in each.items() if key != "text" or "part" not in each}
            for each in result.objects
        ]
        recorded["commands"].append({"arguments": [*words, *code], "objects": rounded(objects)})

    if frozen.predict is not None:
        (Path(name) / frozen.predict_file).write_text("".join(f"{line}\n" for line in frozen.predict), encoding="utf-8")
        into = ["--into", frozen.look["into"]] if "into" in frozen.look else []
        decoding = ["--method", "greedy", "--max-new", "10"] if "generate" in run.uses else []
        input_arguments = [*(["--file"] if frozen.own_text else []), f"{name}/{frozen.predict_file}"]
        record("predict", folder, *input_arguments, "--json", "--device", "cpu", *into, *decoding)
    for files in [[], *SCORED.get(name, [])] if frozen.is_scored else []:
        record("evaluate", folder, *files, "--json", "--device", "cpu")
    (listed,) = command("runs", name, "--json", *code).objects
    recorded["listed"] = rounded(
        {key: value for key, value in listed.items() if key in ("folder", "recipe", "seed", "step", "steps", "state")}
    )
    fitting = [
        each["name"] for each in command("look", folder, "--json", "--device", "cpu", *code).objects if each["fits"]
    ]
    recorded["looks"] = looks(frozen, run, fitting)
    return recorded


def looks(frozen: Frozen, run: Any, fitting: list[str]) -> list[dict[str, Any]]:
    """The facts of every instrument that fits the run; an instrument that fails is skipped."""
    records = []
    for name in fitting:
        if name == "graph":  # the names of its operations depend on the version of torch
            continue
        fields = INSTRUMENTS[name].options.model_fields
        options = {
            key: value
            for key, value in frozen.look.items()
            if key in fields and not (key == "heads" and name == "attention")
        }
        options |= {key: value for key, value in LOOKS.get(name, {}).items() if not (frozen.own_text and key == "text")}
        if name in ("contextuality", "occurrences", "cka") and not frozen.files:
            options |= {"corpus": "ewt-sample", "sentences": 40}
        try:
            view = clew.look(run, name, **options)
        except Exception as error:
            print(f"  {name}: {error}", flush=True)
            continue
        records.append({"instrument": name, "options": options, "facts": rounded(plain(view.facts))})
    return records


def write_compact(path: Path, content: dict[str, Any]) -> None:
    """Write JSON with one line per record."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            each = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in value)
            lines.append(f"{json.dumps(key)}: [\n{each}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    target, *chosen = sys.argv[1:]
    Path(target).mkdir(parents=True, exist_ok=True)
    os.chdir(target)
    torch.set_num_threads(1)
    for each in FROZEN:
        write_data(each)
    for each in chosen or FROZEN:
        print(each, flush=True)
        make(each)
