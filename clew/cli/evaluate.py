"""A run's scores: on its own validation and test data, or on a FILE.

Of a language model, loss, perplexity and bits per character of a text, and of a bidirectional one the loss of each
direction; with --json and a FILE, the log-probability of every token, where each has one: one JSON object a token, then
one with the totals. Where the training data are still there, what they alone tell is shown beside it: n-grams, the most
frequent tag, naive Bayes and others, whichever the task has. Of a masked language model, loss, perplexity and accuracy
of the tokens that are taken out of documents, always the same ones, and of the next sentence.

  clew evaluate runs/shakespeare-lstm
  clew evaluate runs/shakespeare-lstm poem.txt
  clew evaluate runs/shakespeare-lstm poem.txt --json
  clew evaluate runs/shakespeare-bert plays.txt

Of a task that writes a target, such as translation or parsing, loss, perplexity and what is measured of its
predictions, each measure with its signature. FILE is then a file of pairs or of trees, or two files whose lines
translate each other. It is decoded as the run's config says; options and settings of the sections data and decoding
change that. A model of several languages is scored on any direction, also one that it was never trained on, and with
--pivot by way of a third language.

  clew evaluate runs/tatoeba-transformer --beams 10
  clew evaluate runs/tatoeba-transformer test.de test.en --out predictions.jsonl
  clew evaluate runs/tatoeba-transformer pairs.csv data.source=german data.target=english
  clew evaluate runs/multi30k-many data.directions=[de-fr] --pivot en

Of transcribers, word and character error rates; one trained by CTC may search with a language model (--lm).

  clew evaluate runs/digits-speech --lm texts.txt --lm-weight 0.5

Of taggers and classifiers, each measure with what the bootstrap says of it, a line a label, and which label was taken
for which: a row a gold label, a column a predicted one; where there are more than ten, with --confusion. --errors lists
the worst predictions.

  clew evaluate runs/sentiment-lstm --errors 50
  clew evaluate runs/ewt-tagger test.conllu data.format=conllu --confusion
  clew evaluate runs/classify more.csv data.text=body data.label=queue --json

A language model that was never trained to classify is scored so too, on a FILE of texts with labels: it takes the
likeliest of --choices, as `clew classify` does with them.

  clew evaluate runs/gpt2 reviews.csv --choices 1=good,0=bad --template 'Review: {text} It was {choice}.'

What a smaller --precision of the weights costs is shown beside it: every measure, the same in float32, and the
difference.

  clew evaluate runs/shakespeare-gpt --precision int8
"""

import argparse
import re
from functools import partial
from pathlib import Path

from clew.cli.evaluation.evaluate_choices import add_choices, asked_choices
from clew.cli.options.decoding import add_decoding, decoding_options
from clew.cli.options.precision import WHOLE, add_precision, say_sizes
from clew.cli.options.spelling import add_language_model, take_language_model

SETTING = re.compile(r"\w+(\.\w+)+=")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add(
        "given",
        metavar="FILE",
        nargs="*",
        default=[],
        help=(
            "what to score: a text (- is standard input), a file of pairs or trees, two of parallel text; and"
            " section.field=value"
        ),
    )
    add(
        "--streams", type=int, metavar="N", help="read a run's own text as N parallel streams (default: as in training)"
    )
    add("--into", metavar="LANGUAGE", help="pairs of a FILE: their target language, where the model writes several")
    add("--pivot", metavar="LANGUAGE", help="translate into this language first, and from that into the target's")
    add_decoding(parser)
    add_choices(parser)
    add_language_model(parser)
    add("--errors", type=int, default=0, metavar="N", help="the N worst predictions, worst first")
    add("--confusion", action="store_true", help="which label was taken for which, however many there are")
    add("--out", metavar="FILE", help="write every example's source, target, prediction and score, as JSON lines")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    add_precision(parser)
    add("--json", action="store_true", help="JSON lines")


def run(options: argparse.Namespace) -> int:
    from clew.cli.evaluation.evaluate_choices import evaluate_choices
    from clew.cli.evaluation.evaluate_examples import evaluate_examples
    from clew.cli.evaluation.evaluate_texts import evaluate_texts
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run
    from clew.tasks import TASKS

    files = [word for word in options.given if not SETTING.match(word)]
    settings = [word for word in options.given if SETTING.match(word)]
    changed, choices = decoding_options(options), asked_choices(options)
    load = partial(
        load_run, options.folder, device=options.device, code=None if options.code is None else Path(options.code)
    )
    run = load(precision=options.precision)
    options.whole = None if options.precision == WHOLE else load()
    take_language_model(options, run)
    if options.whole is not None:
        take_language_model(options, options.whole)
        say_sizes(options, run)
    if choices is not None:
        return evaluate_choices(run, files, settings, choices, options)
    learning = TASKS[run.config.task.name].learns
    if learning.has_examples:
        return evaluate_examples(run, files, settings, changed, options)
    asked = [name for name in (*changed, "into", "pivot", "out") if getattr(options, name) is not None]
    meant = [
        f"--{name.replace('_', '-')}"
        for name in (*asked, *(name for name in ("errors", "confusion") if getattr(options, name)))
    ]
    if meant or settings:
        raise UserError(
            f"{(meant or settings)[0]} is for tasks that have a target; a language model is scored on a text as it"
            " stands"
        )
    return evaluate_texts(run, files, options)
