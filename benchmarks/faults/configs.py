"""Fuzzed configs: assignments, YAML files and config.json files of runs, as overrides of every recipe. They are
checked, built and trained for one step."""

import json
import math
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.faults.trials import Fault, Result, Runner, run_in_child, run_trials
from clew.core.config import build_part, options_of
from clew.core.tree_nodes import head_nodes
from clew.data.examples import Answer, Labelled, LabelledTree, Pair, Parsed, Question, Sentence
from clew.data.kinds.captioned import CAPTIONED
from clew.data.kinds.described import DESCRIBED
from clew.data.kinds.labelled_graphs import LABELLED_GRAPHS
from clew.data.kinds.labelled_pictures import LABELLED_PICTURES
from clew.data.kinds.labelled_pixels import LABELLED_PIXELS
from clew.data.kinds.labelled_sounds import LABELLED_SOUNDS
from clew.data.kinds.transcribed import TRANSCRIBED
from clew.data.plans import TokenBatch
from clew.data.syntax.trees import parse_tree
from clew.laws.samples import (
    captioned,
    described,
    labelled_graphs,
    labelled_pictures,
    labelled_pixels,
    labelled_sounds,
    transcribed,
)
from clew.layers.cells import CELLS
from clew.layers.embeddings import Segmented
from clew.layers.norms import NORMS
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from clew.layers.wiring import WIRINGS
from clew.models import MODELS
from clew.models.mixed import MIXERS
from clew.recipes import RECIPES
from clew.recipes.resolving import config_of
from clew.runs import memory
from clew.runs.build import build_task
from clew.runs.config import Config, resolve
from clew.runs.directory import read_config
from clew.runs.folder.run_files import FORMAT
from clew.runs.settings.values import parse_value
from clew.sources.readers import LINES, PICTURES, SOUNDS
from clew.sources.words import is_segmented
from clew.tasks import TASKS
from clew.tasks.learnings.examples import Examples
from clew.tasks.learnings.masked_examples import MaskedBatch
from clew.text.train import TOKENIZERS, framed_as_bert, train_character, train_word, train_wordpiece
from clew.training.averaging import AVERAGES
from clew.training.optimisers import OPTIMISERS
from clew.training.problems import prepare_problem
from clew.training.run import check_training
from clew.training.schedules import SCHEDULES

LARGEST = 50 * 2**20  # bytes; the pretended memory of the machine
OBEYED = Path(tempfile.gettempdir()) / f"clew-tag-obeyed-{os.getpid()}"
TAG = f"!!python/object/apply:os.system ['touch {OBEYED}']"
TOKENIZER = train_character("the ball of thread\n")
SIDE = train_character("the ball of thread", specials=["<eos>"])
FRAMED = framed_as_bert(train_wordpiece("the ball of thread"))
PAIRS = [Pair("the ball", "of thread"), Pair("a", "ball")]
EXAMPLES = {
    "pairs": PAIRS,
    "trees": [Parsed(parse_tree("(TOP (S (NP (DT the) (NN ball)) (VP (VB ravels))))"))],
    "questions": [Question("what ravels ?", "the ball ravels", (Answer("the ball", 0),)), Question("why ?", "it does")],
    "tagged words": [Sentence(("the", "ball", "ravels"), ("DT", "NN", "VB")), Sentence(("it",), ("PRP",))],
    "labelled texts": [Labelled("the ball ravels", ("1",)), Labelled("it does not", ("2",))],
    "dependency graphs": [
        Sentence(("it", "ravels"), ("nsubj", "root"), (2, 0), ("nsubj", "root"), deps=(((2, "nsubj"),), ((0, "root"),)))
    ],
    TRANSCRIBED.name: transcribed()[:2],
    CAPTIONED.name: captioned()[:2],
    DESCRIBED.name: described()[:2],
    LABELLED_PICTURES.name: labelled_pictures()[:2],
    LABELLED_SOUNDS.name: labelled_sounds()[:2],
    LABELLED_GRAPHS.name: labelled_graphs()[:2],
    LABELLED_PIXELS.name: labelled_pixels()[:2],
    "labelled trees": [
        LabelledTree(("it", "ravels"), head_nodes([2, 0]), ("1", "2")),
        LabelledTree(("no",), head_nodes([0]), ("1",)),
    ],
}
PARTS = {
    "model.cell": CELLS,
    "model.wiring": WIRINGS,
    "model.norm": NORMS,
    "model.position": POSITIONS,
    "model.score": SCORES,
    "model.family": MODELS,
    "model.layers": {**CELLS, **MIXERS},
    "task.name": TASKS,
    "task.input": {**SOUNDS, **LINES, **PICTURES},
    "text.tokenizer": TOKENIZERS,
    "training.average": AVERAGES,
    "training.optimiser": OPTIMISERS,
    "training.schedule": SCHEDULES,
}
SMALL = {
    "recurrent": ["model.dim=6", "model.embedding_dim=6"],
    "window": ["model.dim=6", "model.embedding_dim=6"],
    "gpt": ["model.dim=8", "model.num_layers=1", "model.num_heads=2", "model.max_length=8"],
    "llama": ["model.dim=8", "model.num_layers=1", "model.num_heads=2"],
    "mixed": ["model.dim=8"],
    "seq2seq": ["model.dim=6", "model.embedding_dim=6"],
    "transformer": ["model.dim=8", "model.num_layers=1", "model.num_heads=2"],
    "convolutional": ["model.dim=6", "model.embedding_dim=6", "model.num_layers=1"],
}


@dataclass(frozen=True)
class Case:
    """Edits of a recipe's config in one of three forms.

    - `assignments`: only assignments.
    - `yaml`: a YAML file of fields (path, text) and of lines in bytes, followed by the assignments.
    - `json`: the config.json of a run, in which fields (path, text) are set and bytes (start, length, new) replaced.
    """

    form: str
    recipe: str
    edits: tuple[Any, ...]
    assignments: tuple[str, ...] = ()


def run(count: int, seed: int, runner: Runner = run_in_child) -> Result:
    with pretended_memory():
        return run_trials(Fault("fuzzed configs", draw, attempt, describe, smaller), count, seed, runner)


@contextmanager
def pretended_memory() -> Iterator[None]:
    original = memory.SMALL, memory.machine_memory
    memory.SMALL, memory.machine_memory = LARGEST // 10, lambda device: LARGEST
    try:
        yield
    finally:
        memory.SMALL, memory.machine_memory = original


def attempt(case: Case) -> str:
    try:
        with tempfile.TemporaryDirectory(prefix="clew-configs-") as folder:
            config = read(case, Path(folder))
        check_training(config.training)
        if TASKS[config.task.name].learning is None:
            prepare_problem(config)  # raises an error
        step(config, build_task(config, vocabularies(config)))
        assert resolve(json.loads(json.dumps(config.model_dump(mode="json")))) == config, (
            "the written config differs from the config"
        )
    finally:
        assert not OBEYED.exists(), "a tag of a YAML file was obeyed"
    return "resolved"


def read(case: Case, folder: Path) -> Config:
    if case.form == "json":
        (folder / "config.json").write_bytes(json_of(case))
        return read_config(folder)
    if case.form == "yaml":
        (folder / "run.yaml").write_bytes(yaml_of(case))
        return config_of(str(folder / "run.yaml"), case.assignments)
    return config_of(case.recipe, case.assignments)


def vocabularies(config: Config) -> dict[str, Any]:
    learning = TASKS[config.task.name].learning
    if learning is None or learning.reads == "documents":
        return {"tokenizer": FRAMED}
    if not isinstance(learning, Examples):
        return {"tokenizer": TOKENIZER}
    if learning.reads == "pairs":
        return {"source": SIDE, "target": SIDE}
    return learning.train(lambda texts, specials: train_word(texts), False, EXAMPLES[learning.reads], config.task)


def batch_of(config: Config, task: Any) -> Any:
    kind = TASKS[config.task.name].learns.reads
    if kind == "text":
        tokens = torch.tensor(TOKENIZER.encode("the thread")[:8])[None]
        return TokenBatch(tokens[:, :-1], tokens[:, 1:])
    if kind == "documents":
        assert FRAMED.frame is not None
        tokens, segments, _ = (
            torch.tensor([ids]) for ids in FRAMED.frame.around(FRAMED.encode("the ball"), FRAMED.encode("of"))
        )
        inputs = Segmented(tokens, segments) if is_segmented(task.body) else tokens
        return MaskedBatch(inputs, None, torch.tensor([[1]]), tokens[:, 1:2], torch.tensor([0]))
    return task.collate(task.encode(EXAMPLES[kind]))


def step(config: Config, task: Any) -> None:
    """Take one training step, and check that all learning rates are finite and not negative."""
    training = config.training
    optimiser = build_part("optimiser", training.optimiser, OPTIMISERS, task.parameters(), training.learning_rate)
    schedule = build_part("schedule", training.schedule, SCHEDULES, training.steps)
    for number, epoch in ((0, 0), (training.steps - 1, 9), (training.steps - 1, 10**6)):
        assert 0 <= schedule.factor(number, epoch) < math.inf, "a negative or infinite learning rate"
    terms, _ = task.train()(batch_of(config, task))
    sum(term.weight * term.sum for term in terms.values()).backward()  # type: ignore[union-attr]
    optimiser.step()


def yaml_of(case: Case) -> bytes:
    """Write the fields, grouped by section, and then the lines."""
    sections: dict[str, list[str]] = {}
    for path, text in (edit for edit in case.edits if isinstance(edit, tuple)):
        section, *names = path.split(".")
        sections.setdefault(section, []).append(f"{'.'.join(names)}: {text}" if names else text)
    fields = [
        f"{section}: " + (f"{{{', '.join(inner)}}}" if ": " in inner[0] else inner[0])
        for section, inner in sections.items()
    ]
    lines = [edit for edit in case.edits if isinstance(edit, bytes)]
    return b"\n".join(
        [f"recipe: {case.recipe}".encode(), *(field.encode("utf-8", "surrogatepass") for field in fields), *lines, b""]
    )


def json_of(case: Case) -> bytes:
    """Write the resolved config as in a run, with fields set to arbitrary text, and then with bytes replaced."""
    settings = json.loads(
        json.dumps({"format": FORMAT, **config_of(case.recipe, case.assignments).model_dump(mode="json")})
    )
    texts = {}
    for number, (path, text) in enumerate(edit for edit in case.edits if isinstance(edit[0], str)):
        section = settings
        *parents, last = path.split(".")
        for name in parents:
            section = section[name] if isinstance(section.get(name), dict) else section.setdefault(name + "_", {})
        section[last] = f"<{number}>"
        texts[f'"<{number}>"'] = text
    content = json.dumps(settings, indent=2)
    for mark, text in texts.items():
        content = content.replace(mark, text)
    data = content.encode("utf-8", "surrogatepass")
    for start, length, new in (edit for edit in case.edits if isinstance(edit[0], int)):
        data = data[: start % (len(data) + 1)] + new + data[start % (len(data) + 1) + length :]
    return data


def describe(case: Case) -> str:
    assignments = " ".join(shlex.quote(assignment) for assignment in case.assignments)
    command = f"clew train {case.recipe} {assignments}".encode("utf-8", "backslashreplace").decode()
    if case.form == "assignments":
        text = command
    elif case.form == "yaml":
        text = f"YAML {yaml_of(case)!r}, then {assignments!r}"
    else:
        text = f"config.json of `{command}` with {case.edits!r}"
    return text if len(text) < 600 else f"{text[:400]} ... ({len(text):,} characters)"


def smaller(case: Case) -> Iterator[Case]:
    for name in ("edits", "assignments"):
        parts = getattr(case, name)
        for number in range(len(parts)):
            yield replace(case, **{name: parts[:number] + parts[number + 1 :]})
    if case.recipe != "text-lstm":
        yield replace(case, recipe="text-lstm")


def draw(random: Random) -> Case:
    recipe = random.choice(list(RECIPES))
    small = small_settings(recipe, random)
    fields = paths(config_of(recipe, small).model_dump(mode="json"))
    strangeness = random.choice([0.02, 0.2, 0.8])
    form = random.choices(["assignments", "yaml", "json"], [5, 3, 2])[0]
    number = random.randint(1, 4)
    if form == "assignments":
        recipe = random.choice(RECIPE_NAMES) if random.random() < strangeness / 20 else recipe
        return Case(form, recipe, (), (*small, *(assignment(random, fields, strangeness) for _ in range(number))))
    edits: list[Any] = [setting(random, fields, strangeness) for _ in range(number)]
    if form == "yaml":
        edits += [odd_line(random, fields) for _ in range(2) if random.random() < strangeness]
        more = [assignment(random, fields, strangeness)] if random.random() < 0.2 else []
        return Case(form, recipe, tuple(edits), (*small, *more))
    edits = [(path, text if random.random() < strangeness / 2 else as_json(text)) for path, text in edits]
    if random.random() < strangeness:
        edits.append((random.randrange(5000), random.randrange(5), random.randbytes(random.randrange(4))))
    return Case(form, recipe, tuple(edits), small)


RECIPE_NAMES = [
    "",
    ".",
    "text-lsmt",
    "TEXT-LSTM",
    "nowhere.yaml",
    "~/x.yml",
    "x" * 5000,
    "x" * 5000 + ".yaml",
    "a\0.yaml",
    "\udce9",
    "/dev/null",
]


def small_settings(recipe: str, random: Random) -> tuple[str, ...]:
    """Return settings of a small model in most cases, so that most valid configs are small enough to be built."""
    if random.random() < 0.1:
        return ()
    if random.random() < 0.2:
        return tuple(smallest(recipe))
    family = random.choice(list(SMALL))
    return (f"model.family={family}", *SMALL[family])


def smallest(recipe: str) -> list[str]:
    """Return settings that make the recipe's own model small."""
    return SMALL.get(config_of(recipe).model.model_dump()["family"], [])


def assignment(random: Random, fields: dict[str, Any], strangeness: float) -> str:
    path, text = setting(random, fields, strangeness)
    if random.random() > 0.05 * strangeness:
        return f"{path}={text}"
    long = ".".join(["model"] * random.choice([3, 50, 2000]))
    return random.choice(
        [
            path,
            f"{path}={text}, {path}={text}",
            f"{path} = {text}",
            f"={text}",
            f"--{path}={text}",
            "",
            "=",
            f"{long}={text}",
        ]
    )


def setting(random: Random, fields: dict[str, Any], strangeness: float) -> tuple[str, str]:
    """Draw a field and a value; each may be valid or not."""
    strange = random.random() < strangeness
    tables = [path for path in PARTS if strange or (path in fields and path != "model.family")]
    path, kind = random.choice([*fields, *tables * 4]), random.random()
    if path in PARTS and kind < 0.6:
        return path, layers(random, strangeness) if path == "model.layers" else part(random, PARTS[path], strangeness)
    if path in PARTS and path not in ("model.family", "model.layers", "task.name", "text.tokenizer"):
        options = [option for member in PARTS[path].values() for option in options_of(member)]
        return f"{path}.{random.choice(options or ['name'])}", value(random) if strange else valid_value(random, 0.1)
    if not strange:
        return path, valid_value(random, fields[path])
    return strange_path(random, path) if kind < 0.3 else path, value(random)


def paths(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict) and not prefix:
            values |= paths(value, f"{name}.")
        else:
            values[prefix + name] = value
    return values


def strange_path(random: Random, path: str) -> str:
    letters = list(path)
    letters[random.randrange(len(letters))] = random.choice(["", "x", "é", "-", ".", " ", "\n", "\udce9", "0"])
    odd = [
        "",
        ".",
        "..",
        "model",
        "training",
        "data.",
        ".dim",
        "__class__",
        "model_config",
        "format",
        "recipe",
        "seed.more",
        "ß" * 300,
    ]
    return random.choice(
        ["".join(letters), f"{path}.name", f"{path}.more.still", path.upper(), path.split(".")[0], *odd]
    )


def valid_value(random: Random, current: Any) -> str:
    """Draw a value of the type of the current one."""
    if isinstance(current, bool):
        return random.choice(["true", "false"])
    if isinstance(current, int) or current is None:
        return str(random.choice([1, 2, 3, 4, 6, 8, 12, 100]))
    if isinstance(current, float):
        return repr(random.choice([0.0, 0.1, 0.5, 0.9, 1.0, 1e-3, 10.0]))
    return json.dumps(current)


def part(random: Random, table: dict[str, Any], strangeness: float) -> str:
    name = random.choice(list(table))
    options = list(options_of(table[name])) if callable(table[name]) else []
    chosen = random.sample(options, random.randint(0, len(options))) if random.random() < 0.6 else []
    if not chosen:
        return name
    values = [
        value(random) if random.random() < strangeness else valid_option(random, table[name], option)
        for option in chosen
    ]
    inner = "".join(f", {option}: {text}" for option, text in zip(chosen, values, strict=True))
    return f"{{name: {name}{inner}}}"


def valid_option(random: Random, member: Any, option: str) -> str:
    default = options_of(member)[option].default
    return json.dumps(default) if isinstance(default, str) else valid_value(random, default)


def layers(random: Random, strangeness: float) -> str:
    table = {**CELLS, **MIXERS}
    chosen = [
        value(random) if random.random() < strangeness / 3 else part(random, table, strangeness)
        for _ in range(random.randint(0, 4))
    ]
    return f"[{', '.join(chosen)}]"


def value(random: Random) -> str:
    depth = random.choice([3, 40, 300, 900, 3000, 100_000])
    nested = random.choice(
        ["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth, "- " * min(depth, 3000) + "1"]
    )
    text = "".join(
        chr(random.choice([*range(32, 127), *range(0xC0, 0x250), 0x4E2D, 0x1F9F5]))
        for _ in range(random.randint(1, 12))
    )
    return random.choice(
        [
            *VALUES,
            *VALUES,
            text,
            nested,
            str(random.randint(-3, 20)),
            str(random.uniform(-2, 2)),
            "x" * random.choice([100, 10_000]),
        ]
    )


VALUES = [
    *[
        "",
        " ",
        "null",
        "true",
        "false",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1e-400",
        "1e308",
        "-1",
        "0",
        "-0.0",
        "1.0",
    ],
    *[
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "1" + "0" * 30,
        "9" * 400,
        "9" * 5000,
        "-" + "9" * 5000,
        "100000000",
    ],
    *[
        '"5"',
        "'5'",
        "[]",
        "{}",
        "[1]",
        "[1, 2",
        "{name",
        '{"name": "lstm"}',
        "{name: lstm}",
        "{name: [lstm]}",
        "{name: null}",
        "{name: 5}",
    ],
    *[
        "{name: gru, weight_drop: 2}",
        "{name: lstm, forget_bias: .nan}",
        "{forget_bias: 1}",
        "{name: lstm, 5: 6}",
        "{name: lstm, null: 1}",
    ],
    *[
        "[lstm, lstm]",
        "[[lstm]]",
        "[{name: attention, num_heads: 0}]",
        "{1: 2, [3]: 4}",
        "{? [a, b] : c}",
        "{a: &x [*x]}",
        "[&a [1], *a]",
    ],
    *[
        "[" + "x, " * 3000 + "]",
        "2020-01-01",
        "[2020-13-45]",
        "[9999-12-31T23:59:59-23:59]",
        "0x10",
        "[0x" + "f" * 5000 + "]",
        "1_000",
        "yes",
    ],
    *[
        "é",
        "日本",
        "e\u0301",
        "\u202eabc",
        "\u2028",
        "\x00",
        "\x1b[31m",
        "\n",
        "a\nb",
        "\t",
        "🧵",
        "\ud800",
        "\udce9t\udce9",
        "\ufeff",
        "a,b",
        ",",
    ],
    *[
        "=",
        "a=b",
        "*a",
        "&a",
        "!",
        "!!int",
        f"[{TAG}]",
        f"{{a: {TAG}}}",
        "[!!int '']",
        "[!!bool x]",
        "[!!timestamp x]",
        "[!!set {a}]",
    ],
    *[
        "[!!binary aGk=]",
        "[!!float x]",
        "~",
        "~nobody/text",
        "/dev/null",
        ".",
        "\\",
        "%",
        "{}%s",
        "{0}",
        "None",
        "lstm",
        "gpt",
    ],
]


def odd_line(random: Random, fields: dict[str, Any]) -> bytes:
    """Draw a line with YAML features that a config does not support, or with invalid YAML."""
    name, text = random.choice([*fields, "x"]).split(".")[0], value(random)
    depth = random.choice([15, 50, 500, 5000])
    kind = random.choice(
        ["int", "float", "bool", "timestamp", "binary", "null", "str", "seq", "map", "set", "omap", "pairs"]
    )
    indicators = ["|", ">", "@", "`", "%", "!", "&", "*", "- -", "? ?", "{", "}", "[", "]", '"', "'"]
    lines = [
        f"{name}: {TAG}".encode(),
        f"{TAG}: 1".encode(),
        f"{name}: !!python/name:os.system".encode(),
        f"{name}: !!python/object/new:subprocess.Popen [['touch', '{OBEYED}']]".encode(),
        f"{name}: &a [*a, *a]".encode(),
        f"{name}:\n  x: &x {{a: 1}}\n  <<: *x".encode(),
        alias_bomb(name).encode(),
        merge_bomb(name).encode(),
        f"{name}:\n\tx: 1".encode(),
        f"{name}: 1\n{name}: 2".encode(),
        f"{name}:\n  dim: 8\n  dim: 9".encode(),
        f"? [a, b]\n: {text}".encode("utf-8", "surrogatepass"),
        f"{name}:\n  ? {{a: b}}\n  : 1".encode(),
        f"{name}: {{5: 6, null: 7, 1.5: 8, true: 9}}".encode(),
        f"{name}: {{? [a, b] : 1}}".encode(),
        f"5: {name}".encode(),
        b"seed: 1\n---\nrecipe: text-gpt",
        b"%YAML 9.9\n---\nseed: 1",
        b"recipe: text-gpt",
        b"recipe: [text-lstm]",
        f"seed: {'9' * random.choice([30, 4000, 5000])}".encode(),
        f"seed: 0x{'f' * 5000}".encode(),
        b"seed: 0b" + b"1" * 20_000,
        b"seed: 1:" + b":".join([b"59"] * 3000),
        ("# " + "x" * 100_000).encode(),
        b"\xff\xfe\x00\x01",
        "text: {tokenizer: wörd}".encode("latin1"),
        "seed: 1".encode("utf-16"),
        b"\xef\xbb\xbfseed: 1",
        b"\x00",
        b"\x85\xa0",
        random.randbytes(random.randint(1, 30)),
        f"{name}: {'[' * depth}{']' * depth}".encode(),
        f"{name}: {'{a: ' * depth}1{'}' * depth}".encode(),
        "\n".join(f"{' ' * i}a:" for i in range(500)).encode(),
        f"{name}: !!{kind} {random.choice(['', 'x', '[1]', '{a: 1}', '0x', '-', '.', '_', ':'])}".encode(),
        f"{name}: {random.choice(indicators)}".encode(),
    ]
    return random.choice(lines)


def alias_bomb(name: str) -> str:
    rows = [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)),
    ]
    return "\n".join([f"{name}:", *(f"  {row}" for row in rows)])


def merge_bomb(name: str) -> str:
    rows = ["a0: &a0 {x: 1, y: 2}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 10))]
    return "\n".join([f"{name}:", *(f"  {row}" for row in rows)])


def as_json(text: str) -> str:
    try:
        return json.dumps(parse_value(text))
    except ValueError:  # not a valid value, or more digits than Python converts
        return json.dumps(text)
