"""Write text with a trained language model.

Every PROMPT is continued. Without one a text is begun: after the end of another, where the model has learnt from documents
apart or knows such a token; else after an empty line, where it has learnt that paragraphs are parted by these; else after the
end of a line. A single sample is shown as it is written.

  clew generate runs/shakespeare-lstm 'ROMEO:' --temperature 0.7
  clew generate runs/shakespeare-lstm 'ROMEO:' 'JULIET:' --method beam --beams 8 --n-best 3 --max-new 80
  clew generate runs/shakespeare-lstm --samples 20 --measure --json
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from clew.cli.decoding import add_decoding, decoding_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    parser.add_argument("prompts", metavar="PROMPT", nargs="*", default=[], help="text to go on from")
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", metavar="FILE", help="prompts from a file, one a line; - is standard input")
    add_decoding(parser)
    add("--n-best", type=int, metavar="N", help="hypotheses shown of each beam search")
    add("--samples", type=int, default=1, metavar="N", help="continuations of every prompt")
    add("--seed", type=int, metavar="N", help="another seed writes another text (default: the run's)")
    add("--measure", action="store_true", help="distinct-n and repetition of the samples, on standard error")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    add("--json", action="store_true", help="one JSON object a continuation")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run

    if options.samples < 1:
        raise UserError(f"--samples ({options.samples}) must be at least 1")
    prompts = [*options.prompts, *(lines_of(options.file) if options.file else [])]
    if options.file and not prompts:
        raise UserError(f"{'standard input' if options.file == '-' else options.file} has no line to go on from")
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    changed = decoding_options(options)
    prompts = prompts or [""]
    method = changed.get("method", run.config.decoding.method)
    if len(prompts) == 1 and options.samples == 1 and method != "beam" and not options.json and not options.measure:
        pieces = run.stream(prompts[0], seed=options.seed, **changed)
        sys.stdout.write(prompts[0])
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return 0
    rows = [prompt for prompt in prompts for _ in range(options.samples)]
    found = run.generate(rows, seed=options.seed, **changed)
    show(found, options.json, run.tokenizer)
    if options.measure:
        measure([sample.tokens for sample in found], run.tokenizer.unit)
    return 0


def show(found: list[Any], as_json: bool, tokenizer: Any) -> None:
    from clew.cli.lines import json_line
    from clew.runs.as_json import generated

    for number, sample in enumerate(found, start=1):
        if as_json:
            print(*map(json_line, generated(number, sample.prompt, [sample])))
        else:
            if len(found) > 1:
                print(f"--- {number}" + (f" (score {sample.score:.3f})" if sample.score is not None else ""))
            print(sample)


def measure(samples: list[list[int]], unit: str) -> None:
    from clew.metrics.diversity import distinct, repetition

    longest = max(len(sample) for sample in samples)
    for n in range(1, min(4, longest) + 1):
        print(f"{unit} {n}-grams: distinct {distinct(samples, n):.3f}, repeated {repetition(samples, n):.3f}", file=sys.stderr)


def lines_of(name: str) -> list[str]:
    """Lines of a file or of standard input, without their ends; empty ones left out."""
    from clew.core.errors import UserError

    try:
        text = read_stdin() if name == "-" else Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"no such file: {name}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: byte {error.start} is not UTF-8; convert the file first") from None
    return [line for line in text.splitlines() if line]


def read_stdin() -> str:
    """All of standard input; where bytes that are no text were let through, they are half characters now."""
    from clew.core.errors import UserError

    try:
        text = sys.stdin.read()
        text.encode()
    except UnicodeError as error:
        raise UserError(f"standard input is not UTF-8 at {error.start}; convert it first") from None  # type: ignore[attr-defined]
    return text
