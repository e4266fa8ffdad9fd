"""A run's scores: on its own validation and test data, or on a FILE.

Of a language model, loss, perplexity and bits per character of a text, and of a bidirectional one the loss of each
direction; with --json and a FILE, the log-probability of every token, where each has one: one JSON object a token, then
one with the totals. Where the training data are still there, what they alone
tell is shown beside it: n-grams, the most frequent tag, naive Bayes and others, whichever the task has. Of a masked
language model, loss, perplexity and accuracy of the tokens that are taken out of documents, always the same ones, and of
the next sentence.

  clew evaluate runs/shakespeare-lstm
  clew evaluate runs/shakespeare-lstm poem.txt
  clew evaluate runs/shakespeare-lstm poem.txt --json
  clew evaluate runs/shakespeare-bert plays.txt

Of a task that writes a target, such as translation or parsing, loss, perplexity and what is measured of its predictions,
each measure with its signature. FILE is then a file of pairs or of trees, or two files whose lines translate each other.
It is decoded as the run's config says; options and settings of the sections data and decoding change that. A model of
several languages is scored on any direction, also one that it was never trained on, and with --pivot by way of a third
language.

  clew evaluate runs/tatoeba-transformer --beams 10
  clew evaluate runs/tatoeba-transformer test.de test.en --out predictions.jsonl
  clew evaluate runs/tatoeba-transformer pairs.csv data.source=german data.target=english
  clew evaluate runs/multi30k-many data.directions=[de-fr] --pivot en

Of taggers and classifiers, each measure with what the bootstrap says of it, a line a label, and which label was taken for
which: a row a gold label, a column a predicted one; where there are more than ten, with --confusion. --errors lists the
worst predictions.

  clew evaluate runs/sentiment-lstm --errors 50
  clew evaluate runs/ewt-tagger test.conllu data.format=conllu --confusion
  clew evaluate runs/classify more.csv data.text=body data.label=queue --json

A language model that was never trained to classify is scored so too, on a FILE of texts with labels: it takes the
likeliest of --choices, as `clew classify` does with them.

  clew evaluate runs/gpt2 reviews.csv --choices 1=good,0=bad --template 'Review: {text} It was {choice}.'
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from clew.cli.decoding import add_decoding, decoding_options
from clew.cli.evaluate_choices import add_choices, asked_choices

SETTING = re.compile(r"\w+(\.\w+)+=")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add(
        "given",
        metavar="FILE",
        nargs="*",
        default=[],
        help="what to score: a text (- is standard input), a file of pairs or trees, two of parallel text; and section.field=value",
    )
    add("--streams", type=int, metavar="N", help="read a run's own text as N parallel streams (default: as in training)")
    add("--into", metavar="LANGUAGE", help="pairs of a FILE: their target language, where the model writes several")
    add("--pivot", metavar="LANGUAGE", help="translate into this language first, and from that into the target's")
    add_decoding(parser)
    add_choices(parser)
    add("--errors", type=int, default=0, metavar="N", help="the N worst predictions, worst first")
    add("--confusion", action="store_true", help="which label was taken for which, however many there are")
    add("--out", metavar="FILE", help="write every example's source, target, prediction and score, as JSON lines")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    add("--json", action="store_true", help="JSON lines")


def run(options: argparse.Namespace) -> int:
    from clew.cli.evaluate_choices import evaluate_choices
    from clew.cli.evaluate_documents import evaluate_documents
    from clew.cli.evaluate_examples import evaluate_run
    from clew.core.errors import UserError
    from clew.runs.directory import IMPORTED
    from clew.runs.loaded import load_run
    from clew.tasks import TASKS

    files = [word for word in options.given if not SETTING.match(word)]
    settings = [word for word in options.given if SETTING.match(word)]
    changed, choices = decoding_options(options), asked_choices(options)
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    if run.config.recipe == IMPORTED and not files and not settings:
        raise UserError(f"{run.folder} was imported and has no data of its own; name a FILE to score it on")
    if choices is not None:
        return evaluate_choices(run, files, settings, choices, options)
    kind = TASKS[run.config.task.name].data
    if kind not in ("text", "documents"):
        if options.streams is not None:
            raise UserError("--streams is for a language model's own text; this run is scored example by example")
        return evaluate_run(run, files, settings, changed, options)
    asked = [name for name in (*changed, "into", "pivot", "out") if getattr(options, name) is not None]
    meant = [f"--{name.replace('_', '-')}" for name in (*asked, *(name for name in ("errors", "confusion") if getattr(options, name)))]
    if meant or settings:
        raise UserError(f"{(meant or settings)[0]} is for tasks that have a target; a language model is scored on a text as it stands")
    if len(files) > 1:
        raise UserError(f"a language model is scored on one text at a time, not on {len(files)}")
    if files and options.streams is not None:
        raise UserError("--streams is for a run's own text; a FILE is always read as one stream")
    if kind == "documents":
        evaluate_documents(run, files, options)
    elif files and (run.verb != "generate" or run.config.training.documents == "apart"):
        evaluate_windows(run, files[0], options.json)
    elif files:
        evaluate_file(run, files[0], options.json)
    else:
        evaluate_own(run, options.streams, options.json)
    return 0


def evaluate_own(run: Any, streams: int | None, as_json: bool) -> None:
    from clew.cli.progress import Lines
    from clew.core.errors import UserError
    from clew.core.files import cache_folder
    from clew.runs.build import encode_texts, find_texts
    from clew.training.baselines import Baselines, check_size
    from clew.training.evaluation import evaluate
    from clew.training.language import as_predicted, score_of

    training = run.config.training
    if streams is not None:
        if streams < 1:
            raise UserError(f"--streams ({streams}) must be at least 1")
        training = training.model_copy(update={"evaluate_batch": streams})
    texts = find_texts(run.config.data)
    train = texts.pop("train")

    def training_text() -> tuple[Any, int]:
        check_size(train)
        text = encode_texts({"train": train}, run.tokenizer, cache_folder(), Lines().encoding, run.config)["train"]
        return as_predicted(run.task, text), getattr(run.task, "predicted", run.tokenizer.vocabulary)

    baselines = Baselines("text", training_text)
    for name, text in encode_texts(texts, run.tokenizer, cache_folder(), Lines().encoding, run.config).items():
        likelihood = evaluate(run.task, text, training)
        assert likelihood is not None
        score = score_of(likelihood, run.tokenizer.unit)
        show(name, baselines.beside(score, as_predicted(run.task, text)) or score, likelihood.tokens, run.tokenizer.unit, as_json)


def evaluate_windows(run: Any, file: str, as_json: bool) -> None:
    """A file as the run's own text is read: of a model of two directions no token has a probability of its own, and documents may be
    apart."""
    from clew.cli.lines import read_stdin
    from clew.cli.progress import Lines
    from clew.core.files import cache_folder
    from clew.data.text_files import TextString, find_text
    from clew.runs.build import encode_texts, text_field
    from clew.training.evaluation import evaluate
    from clew.training.language import score_of

    source = TextString(read_stdin()) if file == "-" else find_text(file, text_field(run.config.data))
    (text,) = encode_texts({file: source}, run.tokenizer, cache_folder(), Lines().encoding, run.config).values()
    likelihood = evaluate(run.task, text, run.config.training)
    assert likelihood is not None
    show(file, score_of(likelihood, run.tokenizer.unit), likelihood.tokens, run.tokenizer.unit, as_json)


def evaluate_file(run: Any, file: str, as_json: bool) -> None:
    import sys

    from clew.cli.lines import read_stdin
    from clew.data.text_files import find_text
    from clew.runs.build import text_field
    from clew.training.language import score_of

    text = read_stdin() if file == "-" else "".join(find_text(file, text_field(run.config.data)))
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
    show(file, score_of(scored.likelihood, run.tokenizer.unit), scored.likelihood.tokens, run.tokenizer.unit, as_json)


def show(name: str, score: Any, tokens: int, unit: str, as_json: bool) -> None:
    from clew.core.errors import counted

    if as_json:
        print(json.dumps({"text": name, "tokens": tokens, "unit": unit, **score.measures}))
    else:
        print(f"{name}: {score.text} ({counted(tokens, 'token')})")
