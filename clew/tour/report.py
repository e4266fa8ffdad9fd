"""The report of a tour: a self-contained page with claims and measurements side by side."""

import platform
from collections.abc import Mapping

import torch

from clew.drawing.report_page import Chapter, Part, report_page
from clew.tour.chapters import CHAPTERS
from clew.tour.experiment import Finding, Scale

TITLE = "A tour of neural sequence models"
SCALES: dict[Scale, str] = {
    "quick": "Trained for a few seconds, as a smoke test: the numbers mean nothing.",
    "tour": "Trained for minutes.",
    "full": "Trained for as long as each claim needs on two cores.",
}
INTRODUCTION = (
    "From the first recurrent network to the Transformer, the questions are the same: what does a model remember, how"
    " far back do its gradients reach, what does it attend to? Here they are answered with models trained on this"
    " machine. Next to every claim is the measured result, whether or not it agrees."
)
PARTS = ("Inside two models", "Claims and experiments")


def report_html(findings: Mapping[str, Finding], scale: Scale, seed: int) -> str:
    threads = torch.get_num_threads()
    total = sum(finding.seconds for finding in findings.values())
    conditions = (
        f"{SCALES[scale]} Seed {seed}, {duration(total)} in total; torch {torch.__version__}, "
        f"{threads} thread{'s' if threads > 1 else ''} of {platform.machine() or 'an unknown machine'}."
    )
    return report_page("clew tour", TITLE, INTRODUCTION, conditions, parts_of(findings))


def parts_of(findings: Mapping[str, Finding]) -> list[Part]:
    """Group the chapters on the two models and the experiments, each under its heading, without empty groups."""
    on_models = [chapter(name, finding) for name, finding in findings.items() if name in CHAPTERS]
    experiments = [chapter(name, finding) for name, finding in findings.items() if name not in CHAPTERS]
    return [Part(title, chapters) for title, chapters in zip(PARTS, (on_models, experiments), strict=True) if chapters]


def chapter(name: str, finding: Finding) -> Chapter:
    return Chapter(
        name,
        finding.title,
        finding.claim,
        finding.measured,
        finding.rows,
        finding.view,
        duration(finding.seconds),
        f"clew tour --only {name}",
    )


def duration(seconds: float) -> str:
    if seconds >= 90:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"
