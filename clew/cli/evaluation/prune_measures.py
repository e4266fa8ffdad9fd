"""What `clew runs prune` measures a run by: its own score on its own data, or how near its vectors stay to those it
had."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

SENTENCES = 100
"""Of the embedded treebank, for a run that has no data."""
TIMED = 7


class Measuring(NamedTuple):
    """`measure(run)` gives measures by name, `name` the one that is drawn; `quality(run)` is one number, higher being
    better. `read(run)` passes once over a batch, and `batches` are those of the training data, where the run has a
    loss."""

    name: str
    about: str
    measure: Callable[[Any], dict[str, float]]
    quality: Callable[[Any], float]
    read: Callable[[Any], object]
    batches: Sequence[Any]


def measuring_of(run: Any, settings: list[str], num_batches: int) -> Measuring:
    from clew.core.errors import UserError
    from clew.runs.directory import IMPORTED

    if not hasattr(run.task, "counts"):  # a task that trains says what its loss is a mean over
        return by_nearness(run)
    if run.config.recipe == IMPORTED and not settings:
        raise UserError(f"{run.folder} was imported and has no data of its own; name some, such as data.train=FILE")
    return by_score(run, settings, num_batches)


def by_score(run: Any, settings: list[str], num_batches: int) -> Measuring:
    """The score of the validation part; batches of the training part tell importance."""
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


def by_nearness(run: Any) -> Measuring:
    """The mean cosine of what a run makes of sentences with what the whole model makes of them."""
    from clew.instruments.subjects.probe_corpora import read_probe_corpus

    corpus = read_probe_corpus("ewt-sample", SENTENCES)
    texts = {part: [" ".join(words) for words in corpus.sentences[part]] for part in ("train", "valid")}

    def vectors(run: Any, part: str) -> Any:
        return run.text_vectors(normalise=True).of(texts[part])

    whole = {part: vectors(run, part) for part in texts}

    def nearness(run: Any, part: str) -> float:
        return float((whole[part] * vectors(run, part)).sum(1).mean())

    about = f"measured by the cosine with the whole model's vectors of {len(texts['valid'])} sentences of ewt-sample"
    return Measuring(
        "cosine",
        about,
        lambda run: {"cosine": nearness(run, "valid")},
        lambda run: nearness(run, "train"),
        lambda run: vectors(run, "valid"),
        (),
    )


def important(run: Any, measuring: Measuring, by: str) -> dict[str, float]:
    """How much each head is needed. A run without a loss has no gradient of one: its heads are left out one by one."""
    from clew.cli.terminal.progress import say
    from clew.inspection.importance import head_importance, leave_one_out, normalised

    if by == "importance" and measuring.batches:
        say(f"telling the importance of heads by {len(measuring.batches)} training batches")
        return normalised(head_importance(run, measuring.batches))
    say("leaving out one head after the other")
    return leave_one_out(run, lambda: measuring.quality(run))


def seconds_per_batch(measuring: Measuring, run: Any) -> float:
    """The median over some passes, after one that is not counted."""
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
