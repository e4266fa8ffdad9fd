"""The verbs of the command, in the order in which a new user meets them, and the file of each. Knows no options."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clew.cli.options.forms import read_forms

FORMS = read_forms()
"""Named forms of `predict`: each does what runs of one task do."""

GROUPS: dict[str, dict[str, str]] = {
    "begin": {
        "recipes": "list the recipes, or print one as YAML",
        "data": "inspect a data file: format, columns, problems",
        "train": "train a recipe, or a model on your own data",
    },
    "use": {
        "predict": "apply a run to a file or to standard input",
        "evaluate": "score a run on its own data or on a file",
    },
    "look inside": {
        "look": "show surprisal, attention, attribution, gates, ...",
        "look probe": "measure what each layer of a run encodes",
        "inspect": "open a page in the browser that looks inside runs",
        "tour": "train small models and write a report on their lineage",
        "describe": "show the layers, shapes and parameters of a run or a recipe",
    },
    "keep and share": {
        "runs": "list the runs in a folder, with their scores",
        "runs compare": "compare groups of runs, with tests and learning curves",
        "runs average": "average the weights of checkpoints or of runs",
        "runs prune": "remove attention heads from a run, to make it smaller and faster",
        "runs merge": "merge an adapter into its base run",
        "export": "write a run for ONNX, torch.export or Hugging Face",
        "import": "convert a published checkpoint to a run",
        "serve": "serve runs over HTTP, with JSON",
    },
    "word vectors": {
        "vectors": "train word vectors on a text",
        "vectors neighbours": "find the nearest words, in a file of vectors or in a run",
        "vectors lexicon": "translate words between the vectors of two languages",
    },
    "your code, your machine": {
        "check": "test the cells, scores, ... that your own file adds",
        "bench": "compare the speed of clew and other libraries here",
        "doctor": "show versions, devices, caches, disks, missing packages",
        "completion": "print the completion script for a shell",
    },
}
ABOUT = {verb: about for group in GROUPS.values() for verb, about in group.items()}
VERBS = {**ABOUT, **{name: form["about"] for name, form in FORMS.items() if name not in ABOUT}}
"""Every verb in the help, with what it does."""
BELOW = {name: name.partition(" ")[0] for name in ABOUT if len(name.split()) > 1}
"""Verbs of two words, and the first word of each."""
FORMER = {name.partition(" ")[2]: name for name in BELOW}
"""Former names of the verbs of two words, which still work."""
FIRST = [name for name in ABOUT if name not in BELOW]
"""Verbs of one word, without the named forms of `predict`."""
FILES = {"import": "import_"}
"""Files of verbs that are Python keywords. The file of a verb of two words is named after the second."""
NAMED_TWICE = {"vectors train": "vectors", "runs list": "runs"}
"""Second names for a verb of one word, in the form of those below it."""
OPTIONS = {"search": "train RECIPE --search 20"}
"""Options that are mistaken for verbs, and the command to use instead."""
ANSWERS = {*FORMS, "predict", "vectors neighbours", "vectors lexicon", "recipes", "completion"}
"""Verbs whose output is data for other programs: a pipe receives it unchanged. All other verbs report to a person."""


LEAST = 20
"""Columns of text beside a name; if there are fewer, the text goes below the name."""


class Call(NamedTuple):
    """A verb and the words after it."""

    verb: str
    words: list[str]
    answers: bool
    """Whether the output is data for other programs."""


def find_verb(words: Sequence[str]) -> Call | None:
    """Return the verb at the start of a command, or None if there is no such verb."""
    if not words:
        return None
    two = " ".join(words[:2])
    if two in ABOUT or two in NAMED_TWICE:
        verb, rest = NAMED_TWICE.get(two, two), words[2:]
    else:
        verb, rest = FORMER.get(words[0], words[0]), words[1:]
    return Call(verb, list(rest), verb in ANSWERS) if verb in VERBS else None


def module_name(verb: str) -> str:
    """Return the name of the module in `clew.cli` that implements a verb."""
    name = verb.rpartition(" ")[2]
    return FILES.get(name, name)


def subverbs(verb: str) -> dict[str, str]:
    """Return the verbs of two words that begin with this one, and what they do."""
    return {name: ABOUT[name] for name, first in BELOW.items() if first == verb}


def listing() -> str:
    """List all verbs in groups, as wide as the terminal, but at most 80 columns."""
    width = columns()
    indent = max(map(len, FIRST)) + 4
    details = {
        verb: f"{verb} {', '.join(name.partition(' ')[2] for name in subverbs(verb))}" for verb in BELOW.values()
    }
    details["predict"] = f"or by name: {', '.join(name for name in FORMS if name not in ABOUT)}"
    lines: list[str] = []
    for title, group in GROUPS.items():
        lines += ["", f"{title}:"]
        for verb in (name for name in group if name not in BELOW):
            lines += [*entry(verb, group[verb], indent, width), *wrapped(details.get(verb, ""), indent, width)]
    return "\n".join(lines[1:])


def see_also(verb: str) -> str:
    """List the verbs of two words that begin with this one, one per line; empty if there are none."""
    names = subverbs(verb)
    indent = max((len(name) for name in names), default=0) + 9
    lines = [line for name, about in names.items() for line in entry(f"clew {name}", about, indent, columns())]
    return "\n".join(["see also:", *lines]) if lines else ""


def columns() -> int:
    """Return the width that argparse uses for help, at most 80 columns."""
    return min(shutil.get_terminal_size().columns, 80) - 2


def entry(verb: str, about: str, indent: int, width: int) -> Iterator[str]:
    """Yield a verb with its description beside it, or below it if the terminal is narrow."""
    if width - indent < LEAST:
        yield f"  {verb}"
        yield from (" " * 6 + line for line in textwrap.wrap(about, max(width - 6, LEAST)))
        return
    first, *rest = textwrap.wrap(about, width - indent)
    yield f"  {verb:<{indent - 2}}{first}"
    yield from (" " * indent + line for line in rest)


def wrapped(text: str, indent: int, width: int) -> Iterator[str]:
    return (" " * indent + line for line in textwrap.wrap(text, max(width - indent, LEAST), subsequent_indent="  "))
