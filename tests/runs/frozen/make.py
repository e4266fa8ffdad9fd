"""How the frozen runs were made: `python -m tests.runs.frozen.make FOLDER [NAME ...]`.

Every task has a run of its own, and so has every way of storing one that differs. Each is trained twice: once to its
end, and once interrupted by Ctrl-C, which is kept, with its checkpoint. What the uninterrupted run measured and what
the interrupted one answers are recorded beside it. What is frozen is not made again; a new format has some runs of its
own.

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
    """An encoder of sentences in the layout of sentence-transformers, imported: the body of the masked language
    model."""
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
    """Two of four heads taken out of the language model."""
    found = command("prune", "language_model/run", "--off", "1.2", "2.1", "--out", f"{name}/run")
    assert found.status == 0, found.err


MAKERS = {"imported": imported, "pruned": pruned}


class Stopping(Silence):
    """Ctrl-C at a step."""

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
    """One of several processes, started as torchrun starts them."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getppid() % 20000))
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
    train(FROZEN[name], name, out, stop=stop)
    os._exit(0)  # threads of the group that was stopped would abort the process


def write_data(name: str) -> None:
    Path(name).mkdir(exist_ok=True)
    for file, content in FROZEN[name].files.items():
        (Path(name) / file).parent.mkdir(parents=True, exist_ok=True)
        (Path(name) / file).write_bytes(content if isinstance(content, bytes) else content.encode())


def make(name: str) -> None:
    """The run that is kept, what the uninterrupted one measured, and what the kept one answers."""
    frozen, folder = FROZEN[name], Path(name)
    shutil.rmtree(folder / "run", ignore_errors=True)
    recorded: dict[str, Any] = {"recipe": frozen.recipe}
    if frozen.made is not None:
        MAKERS[frozen.made](name)
    else:
        recorded["resumed"] = trained(frozen, name)
    strip(folder / "run")
    recorded |= answers(frozen, name)
    write_compact(folder / "recorded.json", recorded)


def trained(frozen: Frozen, name: str) -> dict[str, Any]:
    """Trains the run twice, and checks that the kept one goes on to the bit of the other."""
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
    is_alone = frozen.processes == 1  # sums of several processes have other last bits
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
        "draws": drawn() if dropout else None,
    }


def drawn() -> list[int]:
    """What dropout draws from a seed by this torch; another may draw otherwise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return [int(kept) for kept in torch.nn.functional.dropout(torch.ones(32), 0.5) > 0]


def rounded_metrics(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every record what depends on the run alone, to six digits."""
    left_out = ("tokens_per_second", "seconds", "peak_memory")
    return [{key: float(f"{value:.6g}") for key, value in each.items() if key not in left_out} for each in records]


def strip(folder: Path) -> None:
    """Leaves out what nothing needs, and the name of the machine."""
    shutil.rmtree(folder / "events", ignore_errors=True)
    for name in ("lock", "pruning.html"):
        (folder / name).unlink(missing_ok=True)
    facts = read_json(folder / "environment.json")
    write_json(folder / "environment.json", {**facts, "platform": "Linux", "hardware": "x86_64"})


def answers(frozen: Frozen, name: str) -> dict[str, Any]:
    """What the kept run answers from Python and on the command line."""
    folder = f"{name}/run"
    code = [] if frozen.code is None else ["--code", f"{folder}/code.py"]
    run = clew.load(folder, device="cpu", code=code[-1] if code else None)
    asked = [{"method": method, "arguments": given, "options": options} for method, given, options in frozen.asks]
    recorded: dict[str, Any] = {
        "python": [{**each, "answer": rounded(ask(run, *each.values()))} for each in asked],
        "commands": [],
    }

    def record(*words: str) -> None:
        found = command(*words, *code)
        assert found.status == 0, (words, found.err)
        objects = [
            {key: value for key, value in each.items() if key != "text" or "part" not in each} for each in found.objects
        ]  # no prose
        recorded["commands"].append({"arguments": [*words, *code], "objects": rounded(objects)})

    if frozen.predict is not None:
        (Path(name) / frozen.predict_file).write_text("".join(f"{line}\n" for line in frozen.predict), encoding="utf-8")
        into = ["--into", frozen.look["into"]] if "into" in frozen.look else []
        how = ["--method", "greedy", "--max-new", "10"] if "generate" in run.uses else []
        asked_in = [*(["--file"] if frozen.own_text else []), f"{name}/{frozen.predict_file}"]
        record("predict", folder, *asked_in, "--json", "--device", "cpu", *into, *how)
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
    """The facts of every instrument that fits; of one that refuses this run all the same there are none."""
    found = []
    for name in fitting:
        if name == "graph":  # its operations have the names that a version of torch gives them
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
        found.append({"instrument": name, "options": options, "facts": rounded(plain(view.facts))})
    return found


def write_compact(path: Path, content: dict[str, Any]) -> None:
    """JSON with a line for each recorded thing."""
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
