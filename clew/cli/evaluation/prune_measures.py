"""How `clew runs prune` measures quality: by the run's score on its own data, or by the similarity of its vectors to
the original's."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

SENTENCES = 100
"""Sentences of the embedded treebank, for a run without data."""
TIMED = 7


class Measuring(NamedTuple):
    """How to measure a run.

    `measure(run)` returns measures by name, and `name` is the one to plot. `quality(run)` is one number, higher being
    better. `read(run)` runs the model on one batch. `batches` come from the training data, if the run has a loss.
    """

    name: str
    about: str
    measure: Callable[[Any], dict[str, float]]
    quality: Callable[[Any], float]
    read: Callable[[Any], object]
    batches: Sequence[Any]


def measuring_of(run: Any, settings: list[str], num_batches: int) -> Measuring:
    from clew.core.errors import UserError
    from clew.runs.folder.run_files import IMPORTED

    if not hasattr(run.task, "counts"):  # only a task that can be trained has counts
        return by_similarity(run)
    if run.config.recipe == IMPORTED and not settings:
        raise UserError(f"{run.folder} was imported and has no data of its own; give some, such as data.train=FILE")
    return by_score(run, settings, num_batches)


def by_score(run: Any, settings: list[str], num_batches: int) -> Measuring:
    """Measure by the score on the validation part; importance comes from batches of the training part."""
    from contextlib import nullcontext

    from clew.core.batches import to_device
    from clew.core.modes import evaluating
    from clew.runs.config import resolve
    from clew.runs.settings.overriding import override
    from clew.runs.trust import check_paths
    from clew.training.problems import prepare_problem

    check_paths(run.folder, run.config.data, settings)
    config = run.config
    if settings:
        own = ["data.corpus=null"] if any(word.startswith("data.train=") for word in settings) else []
        config = resolve(override(config.model_dump(mode="json"), [*own, *settings]))
    problem = prepare_problem(config, run.folder)
    batches = [problem.batches.get(0, number) for number in range(min(num_batches, problem.batches.per_epoch(0)))]

    def judged(run: Any) -> Any:
        score = problem.judge("valid", run.task, run.task, nullcontext, lambda: False)
        assert score is not None
        return score

    def read(run: Any) -> None:
        with evaluating([run.task]):
            run.task(to_device(batches[0], next(run.task.parameters()).device), None)

    best, about = getattr(run.task, "best", "loss"), "measured on the validation part"
    return Measuring(best, about, lambda run: judged(run).measures, lambda run: -judged(run).value, read, batches)


def by_similarity(run: Any) -> Measuring:
    """Measure by the mean cosine between the sentence vectors of a run and those of the original model."""
    from clew.instruments.subjects.probe_corpora import read_probe_corpus

    corpus = read_probe_corpus("ewt-sample", SENTENCES)
    texts = {part: [" ".join(words) for words in corpus.sentences[part]] for part in ("train", "valid")}

    def vectors(run: Any, part: str) -> Any:
        return run.text_vectors(normalise=True).of(texts[part])

    original = {part: vectors(run, part) for part in texts}

    def similarity(run: Any, part: str) -> float:
        return float((original[part] * vectors(run, part)).sum(1).mean())

    about = f"measured by the cosine with the original model's vectors of {len(texts['valid'])} sentences of ewt-sample"
    return Measuring(
        "cosine",
        about,
        lambda run: {"cosine": similarity(run, "valid")},
        lambda run: similarity(run, "train"),
        lambda run: vectors(run, "valid"),
        (),
    )


def head_scores(run: Any, measuring: Measuring, by: str) -> dict[str, float]:
    """Return the importance of each head, by gradients, or by leaving out one at a time if the run has no loss."""
    from clew.cli.terminal.progress import say
    from clew.inspection.importance import head_importance, leave_one_out, normalise_layers

    if by == "importance" and measuring.batches:
        say(f"measuring the importance of the heads on {len(measuring.batches)} training batches")
        return normalise_layers(head_importance(run, measuring.batches))
    say("leaving out one head at a time")
    return leave_one_out(run, lambda: measuring.quality(run))


def seconds_per_batch(measuring: Measuring, run: Any) -> float:
    """Return the median time of several passes, after a warm-up."""
    import torch

    device = next(run.task.parameters()).device
    times = []
    for _ in range(TIMED + 1):
        start = time.perf_counter()
        measuring.read(run)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return median(times[1:])
