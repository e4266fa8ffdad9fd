"""A worker that is kept busy, and a run with a vulnerable tokenizer."""

import json
import threading
from pathlib import Path
from typing import Any

from clew.runs.build import build_task
from clew.runs.loaded import Run
from clew.serving.worker import Worker
from clew.text.tokenizer import Tokenizer
from tests.instruments.small_runs import small_run

BACKTRACKING = r"(a+)+$"
"""A pattern that takes 2^n steps on n times `a` followed by another character."""


class Blocked:
    """Keeps the worker busy within this context."""

    def __init__(self, worker: Worker):
        self.worker = worker
        self.free = threading.Event()

    def __enter__(self) -> None:
        self.job = self.worker.submit(self.free.wait)

    def __exit__(self, *_: Any) -> None:
        self.free.set()
        self.job.result.result(5)


def with_pattern(tokenizer: Tokenizer, pattern: str) -> Tokenizer:
    """The same tokenizer, which first splits texts at a pattern, as a tokenizer.json may define."""
    description = json.loads(tokenizer.to_json())
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    description["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, description["pre_tokenizer"]]}
    return Tokenizer.from_json(json.dumps(description))


def run_with_pattern(pattern: str) -> Run:
    run = small_run("bytes")
    vocabularies = {role: with_pattern(tokenizer, pattern) for role, tokenizer in run.vocabularies.items()}
    return Run(
        Path("runs") / "imported", run.config, vocabularies, build_task(run.config, vocabularies, to_train=False).eval()
    )
