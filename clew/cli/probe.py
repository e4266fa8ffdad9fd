"""What each layer of a run knows: how well the labels of words and of sentences can be told from its vectors.

The run reads the sentences of a corpus as it is; nothing of it is trained. From the vectors of every level, and of
mixes of levels, a linear probe learns the labels of the training part, and the table has its accuracy on the test part.
A mix is named as embedding.mix takes it. Any run that reads a text will do: a language model, a tagger, a classifier;
of a translator its encoder is probed.

  clew look probe runs/shakespeare-lstm
  clew look probe runs/shakespeare-gpt --control --out levels.svg
  clew look probe runs/ewt-tagger --corpus ewt-sample:xpos --limit 500
  clew look probe runs/ewt-tagger --corpus ewt-sample --corpus gum-trees-sample --json

Without --corpus, parts of speech (ewt-sample) and the polarity of film reviews (sentiment-sample) are told. --control
probes an untrained model of the same shape too: only what is above that was learnt.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    add = parser.add_argument
    add(
        "--corpus",
        action="append",
        metavar="NAME",
        help="a corpus with tags (NAME:KIND for another kind) or labels; may be repeated",
    )
    add("--limit", type=int, metavar="N", help="sentences of each part at most (default: 1000)")
    add(
        "--pieces",
        choices=["first", "last", "mean"],
        default="last",
        help="which of a word's tokens stand for it (default: last)",
    )
    add("--control", action="store_true", help="the same with an untrained model of the same shape")
    add("--out", metavar="FILE.svg", help="draw the accuracies by level")
    add("--json", action="store_true", help="JSON lines, one for each corpus and row")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def run(options: argparse.Namespace) -> int:
    from clew.cli.terminal.progress import say
    from clew.cli.terminal.tables import show_table
    from clew.core.errors import UserError
    from clew.instruments.probe_drawing import probing_svg
    from clew.instruments.probing import CORPORA_PROBED, LIMIT, probe_run
    from clew.runs.loaded import load_run

    out = None if options.out is None else Path(options.out)
    if out is not None and out.suffix != ".svg":
        raise UserError(f"--out draws a picture for a name that ends in .svg, not {out.name}")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"{out.parent} is no folder, so that {out.name} cannot be written there")
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    found = probe_run(
        run,
        options.corpus or CORPORA_PROBED,
        limit=LIMIT if options.limit is None else options.limit,
        pieces=options.pieces,
        control=options.control,
        say=now_and_then(say),
    )
    if out is not None:
        out.write_text(probing_svg(found), encoding="utf-8")
    if options.json:
        for record in found.records():
            print(json.dumps(record, ensure_ascii=False))
        return 0
    header, rows = found.table()
    show_table(header, rows, right=range(2, len(header)))
    for note in found.notes():
        print(note)
    if out is not None:
        say(f"wrote {out}")
    return 0


def now_and_then(say: Any, every: float = 5.0) -> Any:
    """Says at most one thing every few seconds."""
    last = time.monotonic()

    def sometimes(text: str) -> None:
        nonlocal last
        if time.monotonic() - last > every:
            last = time.monotonic()
            say(text)

    return sometimes
