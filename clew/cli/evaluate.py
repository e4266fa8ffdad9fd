"""A run's loss, perplexity and bits per character: on its own validation and test text, or on a FILE.

With --json and a FILE, the log-probability of every token: one JSON object a token, then one with the totals.

  clew evaluate runs/shakespeare-lstm
  clew evaluate runs/shakespeare-lstm poem.txt
  clew evaluate runs/shakespeare-lstm poem.txt --json
"""

import argparse
import json
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("file", metavar="FILE", nargs="?", help="a text to score; - is standard input (default: the run's own data)")
    parser.add_argument("--streams", type=int, metavar="N", help="read the run's own text as N parallel streams (default: as in training)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    parser.add_argument("--json", action="store_true", help="JSON lines")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run

    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    if options.file is not None and options.streams is not None:
        raise UserError("--streams is for a run's own text; a FILE is always read as one stream")
    if options.file is None:
        evaluate_own(run, options.streams, options.json)
    else:
        evaluate_file(run, options.file, options.json)
    return 0


def evaluate_own(run: Any, streams: int | None, as_json: bool) -> None:
    from clew.cli.progress import Lines
    from clew.core.errors import UserError
    from clew.runs.build import encode_texts, find_texts
    from clew.runs.directory import cache_folder
    from clew.training.evaluation import evaluate

    training = run.config.training
    if streams is not None:
        if streams < 1:
            raise UserError(f"--streams ({streams}) must be at least 1")
        training = training.model_copy(update={"evaluate_batch": streams})
    texts = {name: text for name, text in find_texts(run.config.data).items() if name != "train"}
    for name, text in encode_texts(texts, run.tokenizer, cache_folder(), Lines().encoding).items():
        likelihood = evaluate(run.task, text, training)
        assert likelihood is not None
        show(name, likelihood, run.tokenizer.unit, as_json)


def evaluate_file(run: Any, file: str, as_json: bool) -> None:
    import sys

    from clew.cli.generate import read_stdin
    from clew.data.text_files import find_text

    text = read_stdin() if file == "-" else "".join(find_text(file))
    scored = run.score(text)
    if as_json:
        rows = zip(scored.tokens[1:], scored.offsets[1:], scored.log_probs, strict=True)
        for token, (start, stop), log_prob in rows:
            print(
                json.dumps(
                    {"token": scored.text[start:stop], "id": token, "start": start, "stop": stop, "log_prob": log_prob}, ensure_ascii=False
                )
            )
    unknown = run.tokenizer.unknown
    count = sum(token == unknown for token in scored.tokens) if unknown is not None else 0
    if count:
        print(f"{count} of {len(scored.tokens)} tokens are unknown to the model", file=sys.stderr)
    show(file, scored.likelihood, run.tokenizer.unit, as_json)


def show(name: str, likelihood: Any, unit: str, as_json: bool) -> None:
    if as_json:
        numbers = {"loss": likelihood.loss, "perplexity": likelihood.perplexity, "bits_per_character": likelihood.bits_per_character}
        print(json.dumps({"text": name, "tokens": likelihood.tokens, "unit": unit, **numbers}))
    else:
        print(f"{name}: {likelihood.describe(unit)} ({likelihood.tokens:,} tokens)")
