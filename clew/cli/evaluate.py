"""Score a run on its own validation and test data, or on a FILE.

A language model is scored by loss, perplexity and bits per character of a text; a bidirectional one also by the loss of
each direction. With --json and a FILE, the output has one JSON object per token, with its log-probability, if the model
gives one, and then one with the totals. A masked language model is scored by loss, perplexity and accuracy on masked
tokens of documents, always the same ones, and on the next sentence. If the training data are available, the task's
baselines are scored too: n-grams, the most frequent tag, naive Bayes, ...

  clew evaluate runs/shakespeare-lstm
  clew evaluate runs/shakespeare-lstm poem.txt
  clew evaluate runs/shakespeare-lstm poem.txt --json
  clew evaluate runs/shakespeare-bert plays.txt

A task that generates a target, such as translation or parsing, is scored by loss, perplexity and measures of its
predictions, each with its signature. FILE is then a file of pairs or trees, or two parallel files. Decoding follows the
run's config; options, and settings of the sections data and decoding, override it. A multilingual model can be scored
on any direction, even one that it was never trained on, and with --pivot through a third language.

  clew evaluate runs/tatoeba-transformer --beams 10
  clew evaluate runs/tatoeba-transformer test.de test.en --out predictions.jsonl
  clew evaluate runs/tatoeba-transformer pairs.csv data.source=german data.target=english
  clew evaluate runs/multi30k-many data.directions=[de-fr] --pivot en

A transcriber is scored by word and character error rates. If it was trained with CTC, it can use a language model
(--lm).

  clew evaluate runs/digits-speech --lm texts.txt --lm-weight 0.5

A tagger or classifier is scored by measures with bootstrap confidence intervals, scores per label, and the confusion
matrix: a row is a gold label, a column a predicted one. With more than ten labels, the matrix needs --confusion.
--errors lists the worst predictions.

  clew evaluate runs/sentiment-lstm --errors 50
  clew evaluate runs/ewt-tagger test.conllu data.format=conllu --confusion
  clew evaluate runs/classify more.csv data.text=body data.label=queue --json

A language model can be scored as a zero-shot classifier too, on a FILE of labelled texts: it predicts the likeliest of
--choices, as in `clew classify`.

  clew evaluate runs/gpt2 reviews.csv --choices 1=good,0=bad --template 'Review: {text} It was {choice}.'

With --precision, every measure is shown for the smaller type and for float32, with the difference.

  clew evaluate runs/shakespeare-gpt --precision int8
"""

import argparse
import re
from functools import partial
from pathlib import Path

from clew.cli.evaluation.evaluate_choices import add_choices, read_choices
from clew.cli.options.decoding import add_decoding, decoding_options
from clew.cli.options.precision import FULL, add_precision, say_sizes
from clew.cli.options.spelling import add_language_model, set_language_model

SETTING = re.compile(r"\w+(\.\w+)+=")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add(
        "words",
        metavar="FILE",
        nargs="*",
        default=[],
        help=(
            "the data to score: a text (- is standard input), a file of pairs or trees, two parallel files; settings"
            " section.field=value may follow"
        ),
    )
    add(
        "--streams", type=int, metavar="N", help="read a run's own text as N parallel streams (default: as in training)"
    )
    add("--into", metavar="LANGUAGE", help="for pairs in FILE: the target language, if the model has several")
    add(
        "--pivot",
        metavar="LANGUAGE",
        help="translate into this language first, and from there into the target language",
    )
    add_decoding(parser)
    add_choices(parser)
    add_language_model(parser)
    add("--errors", type=int, default=0, metavar="N", help="list the N worst predictions, worst first")
    add("--confusion", action="store_true", help="show the confusion matrix for any number of labels")
    add("--out", metavar="FILE", help="write source, target, prediction and score of every example as JSON lines")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")
    add_precision(parser)
    add("--json", action="store_true", help="print JSON lines")


def run(options: argparse.Namespace) -> int:
    from clew.cli.evaluation.evaluate_choices import evaluate_choices
    from clew.cli.evaluation.evaluate_examples import evaluate_examples
    from clew.cli.evaluation.evaluate_texts import evaluate_texts
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run
    from clew.tasks import TASKS

    files = [word for word in options.words if not SETTING.match(word)]
    settings = [word for word in options.words if SETTING.match(word)]
    changed, choices = decoding_options(options), read_choices(options)
    load = partial(
        load_run, options.folder, device=options.device, code=None if options.code is None else Path(options.code)
    )
    run = load(precision=options.precision)
    options.full_run = None if options.precision == FULL else load()
    set_language_model(options, run)
    if options.full_run is not None:
        set_language_model(options, options.full_run)
        say_sizes(options, run)
    if choices is not None:
        return evaluate_choices(run, files, settings, choices, options)
    learning = TASKS[run.config.task.name].learns
    if learning.has_examples:
        return evaluate_examples(run, files, settings, changed, options)
    names = [name for name in (*changed, "into", "pivot", "out") if getattr(options, name) is not None]
    names += [name for name in ("errors", "confusion") if getattr(options, name)]
    flags = [f"--{name.replace('_', '-')}" for name in names]
    if flags or settings:
        raise UserError(
            f"{(flags or settings)[0]} is for tasks with a target, but {run.folder} is a run of the task"
            f" {run.config.task.name}, which is scored on plain text; leave it out"
        )
    return evaluate_texts(run, files, options)
