"""The verbs of the command, in the order in which a person meets them, and the file of each. Knows no options."""

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
        "predict": "do what a run's task does, on a file or standard input",
        "evaluate": "measure a run on its own data or on a file",
    },
    "look inside": {
        "look": "show surprisal, attention, attribution, gates, ...",
        "look probe": "what each layer of a run knows",
        "inspect": "open a page that looks inside runs",
        "tour": "train small models and write the lineage as a report",
        "describe": "layers, shapes and parameters of a run or a recipe",
    },
    "keep and share": {
        "runs": "list the runs below a folder, and how they went",
        "runs compare": "groups of runs side by side, with tests and learning curves",
        "runs average": "average the weights of checkpoints or of runs",
        "runs prune": "remove attention heads from a run: smaller, faster",
        "runs merge": "merge an adapter into the run that it was trained on",
        "export": "write a run for other runtimes",
        "import": "make a run of a published checkpoint",
        "serve": "serve a run to programs: JSON over HTTP",
    },
    "words": {
        "vectors": "train word vectors on a text",
        "vectors neighbours": "the words nearest a word, in a file of vectors or in a run",
        "vectors lexicon": "a dictionary between two languages, from their vectors",
    },
    "your code, your machine": {
        "check": "run the laws on the cells, scores, ... of a file of yours",
        "bench": "time clew beside its peers on this machine",
        "doctor": "versions, devices, caches, disks, and what is missing for what",
        "completion": "print what makes a shell complete clew's commands",
    },
}
ABOUT = {verb: about for group in GROUPS.values() for verb, about in group.items()}
VERBS = {**ABOUT, **{name: form["about"] for name, form in FORMS.items() if name not in ABOUT}}
"""Every verb that help speaks of, with what it does."""
BELOW = {name: name.partition(" ")[0] for name in ABOUT if len(name.split()) > 1}
"""Verbs of two words, and the verb that each begins with."""
FORMER = {name.partition(" ")[2]: name for name in BELOW}
"""What verbs of two words were called when they had one; they still answer."""
FIRST = [name for name in ABOUT if name not in BELOW]
"""Verbs of one word that are no named forms."""
FILES = {"import": "import_"}
"""Verbs that are keywords of Python, and their files. The file of a verb of two words has the second's name."""
NAMED_TWICE = {"vectors train": "vectors", "runs list": "runs"}
"""The verb itself, written out beside those below it."""
OPTIONS = {"search": "train RECIPE --search 20"}
"""Options that people take for verbs, and the command to write instead."""
ANSWERS = {*FORMS, "predict", "vectors neighbours", "vectors lexicon", "recipes", "completion"}
"""Verbs whose output is data for another program: into a pipe it goes exactly; every other verb reports to a person."""


LEAST = 20
"""Columns of text beside a name; where there are fewer it stands below."""


class Call(NamedTuple):
    """A verb and the words behind it."""

    verb: str
    words: list[str]
    answers: bool
    """Whether the output is data for another program."""


def find_verb(words: Sequence[str]) -> Call | None:
    """The verb that a command begins with; None where there is none of that name."""
    if not words:
        return None
    two = " ".join(words[:2])
    if two in ABOUT or two in NAMED_TWICE:
        verb, others = NAMED_TWICE.get(two, two), words[2:]
    else:
        verb, others = FORMER.get(words[0], words[0]), words[1:]
    return Call(verb, list(others), verb in ANSWERS) if verb in VERBS else None


def file_of(verb: str) -> str:
    """The module of `clew.cli` that a verb is in."""
    name = verb.rpartition(" ")[2]
    return FILES.get(name, name)


def below(verb: str) -> dict[str, str]:
    """The verbs of two words that begin with this one, and what they do."""
    return {name: ABOUT[name] for name, first in BELOW.items() if first == verb}


def listing() -> str:
    """All verbs in groups, as wide as the terminal, 80 columns at most."""
    width = columns()
    indent = max(map(len, FIRST)) + 4
    more = {verb: f"{verb} {', '.join(name.partition(' ')[2] for name in below(verb))}" for verb in BELOW.values()}
    more["predict"] = f"by name: {', '.join(name for name in FORMS if name not in ABOUT)}"
    lines: list[str] = []
    for title, group in GROUPS.items():
        lines += ["", f"{title}:"]
        for verb in (name for name in group if name not in BELOW):
            lines += [*entry(verb, group[verb], indent, width), *wrapped(more.get(verb, ""), indent, width)]
    return "\n".join(lines[1:])


def see_also(verb: str) -> str:
    """The verbs below this one, a line each; empty where there are none."""
    names = below(verb)
    indent = max((len(name) for name in names), default=0) + 9
    lines = [line for name, about in names.items() for line in entry(f"clew {name}", about, indent, columns())]
    return "\n".join(["see also:", *lines]) if lines else ""


def columns() -> int:
    """What argparse takes for the width of help, 80 columns at most."""
    return min(shutil.get_terminal_size().columns, 80) - 2


def entry(verb: str, about: str, indent: int, width: int) -> Iterator[str]:
    """A verb with what it does beside it, or below it where there is little room."""
    if width - indent < LEAST:
        yield f"  {verb}"
        yield from (" " * 6 + line for line in textwrap.wrap(about, max(width - 6, LEAST)))
        return
    first, *others = textwrap.wrap(about, width - indent)
    yield f"  {verb:<{indent - 2}}{first}"
    yield from (" " * indent + line for line in others)


def wrapped(text: str, indent: int, width: int) -> Iterator[str]:
    return (" " * indent + line for line in textwrap.wrap(text, max(width - indent, LEAST), subsequent_indent="  "))
