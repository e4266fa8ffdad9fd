"""What `clew classify` and `clew predict` do for runs that read trees: a bracketed tree a line, or a CoNLL-U file of dependency trees."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MOST = 256
"""Sentences of a CoNLL-U file that are classified together."""


def classify_trees(run: Any, file: str | None, as_json: bool) -> int:
    """`label<TAB>probability` for every tree, as soon as it is there; an empty line for an empty one."""
    from clew.cli.progress import say

    if file in (None, "-") and sys.stdin.isatty():
        say("reading bracketed trees from the terminal, one a line; Ctrl-D ends them")
    first = 1
    for trees in some_trees(file):
        found = run.classify_trees(trees, first=first)
        for number, (tree, classified) in enumerate(zip(trees, found, strict=True), start=first):
            print(json_line(number, tree, classified) if as_json else text_line(classified))
        sys.stdout.flush()
        first += len(trees)
    return 0


def some_trees(file: str | None) -> Iterator[Sequence[Any]]:
    from clew.cli.lines import some_lines
    from clew.data.conllu_files import read_conllu
    from clew.data.formats import find_format

    if file in (None, "-") or find_format(Path(str(file)).expanduser()) != "conllu":
        yield from some_lines(file)
        return
    sentences = read_conllu(Path(str(file)).expanduser(), tags=None)
    some: list[Any] = []
    for sentence in sentences:
        some.append(sentence)
        if len(some) == MOST:
            yield some
            some = []
    if some:
        yield some


def text_line(classified: Any) -> str:
    return "" if classified is None else f"{classified.label}\t{classified.probability:.4f}"


def json_line(number: int, tree: Any, classified: Any) -> str:
    shown = tree if isinstance(tree, str) else " ".join(tree.words)
    fields: dict[str, Any] = {"line": number, "tree": shown, "label": None}
    if classified is not None:
        rounded = {label: round(share, 6) for label, share in classified.probabilities.items()}
        fields |= {"label": classified.label, "probability": round(classified.probability, 6), "probabilities": rounded}
        fields["nodes"] = list(classified.nodes)
    return json.dumps(fields, ensure_ascii=False)
