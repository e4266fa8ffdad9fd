"""Measure what each layer of a run encodes: how well labels of words and sentences can be predicted from its vectors.

The run reads the sentences of a corpus, and is not trained. A linear probe learns the labels of the training part from
the vectors of each level, and of mixes of levels; the table has its accuracy on the test part. Mixes have the names
that embedding.mix takes. Any run that reads text can be probed: a language model, a tagger, a classifier; of a
translator the encoder is probed.

  clew look probe runs/shakespeare-lstm
  clew look probe runs/shakespeare-gpt --control --out levels.svg
  clew look probe runs/ewt-tagger --corpus ewt-sample:xpos --limit 500
  clew look probe runs/ewt-tagger --corpus ewt-sample --corpus gum-trees-sample --json

Without --corpus, the labels are parts of speech (ewt-sample) and the polarity of film reviews (sentiment-sample).
--control also probes an untrained model of the same shape: only the accuracy above it was learned.
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
        help="a corpus with tags (NAME:KIND for another kind of tag) or labels; may be repeated",
    )
    add("--limit", type=int, metavar="N", help="use at most N sentences of each part (default: 1000)")
    add(
        "--pieces",
        choices=["first", "last", "mean"],
        default="last",
        help="which of a word's tokens represents it (default: last)",
    )
    add("--control", action="store_true", help="also probe an untrained model of the same shape")
    add("--out", metavar="FILE.svg", help="plot the accuracies by level")
    add("--json", action="store_true", help="print one JSON line per corpus and row")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")


def run(options: argparse.Namespace) -> int:
    from clew.cli.terminal.progress import say
    from clew.cli.terminal.tables import show_table
    from clew.core.errors import UserError
    from clew.instruments.probe_view import probing_view
    from clew.instruments.probing import CORPORA_PROBED, LIMIT, probe_run
    from clew.runs.loaded import load_run

    out = None if options.out is None else Path(options.out)
    if out is not None and out.suffix != ".svg":
        raise UserError(f"--out must end in .svg, not {out.name}")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"no such folder for --out: {out.parent}; create it first")
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    probing = probe_run(
        run,
        options.corpus or CORPORA_PROBED,
        limit=LIMIT if options.limit is None else options.limit,
        pieces=options.pieces,
        control=options.control,
        say=rarely(say),
    )
    if out is not None:
        probing_view(probing).save(out)
    if options.json:
        for record in probing.records():
            print(json.dumps(record, ensure_ascii=False))
        return 0
    header, rows = probing.table()
    show_table(header, rows, right=range(2, len(header)))
    for note in probing.notes():
        print(note)
    if out is not None:
        say(f"wrote {out}")
    return 0


def rarely(say: Any, every: float = 5.0) -> Any:
    """Return a function that prints at most one message every few seconds."""
    last = time.monotonic()

    def sometimes(text: str) -> None:
        nonlocal last
        if time.monotonic() - last > every:
            last = time.monotonic()
            say(text)

    return sometimes
