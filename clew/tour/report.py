"""The report of a tour: a self-contained page with claims and measurements side by side. All text is escaped."""

import platform
from collections.abc import Mapping
from importlib.resources import files

import torch

from clew.drawing import pages
from clew.drawing.colours import DARK, LIGHT, variables
from clew.drawing.letters import markup
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
    heading = f'<p class="brand">clew tour</p><h1>{TITLE}</h1><p class="lead">{INTRODUCTION}</p>'
    body = f"""<body>
<header>{heading}<p class="made">{markup(conditions)}</p></header>
<main>
<nav aria-label="Contents">{contents(findings)}</nav>
{summary(findings)}
{chapters(findings)}
</main>"""
    return pages.whole_page(TITLE, stylesheet(), body, "enliven(document);\n")


def stylesheet() -> str:
    light, dark = map(variables, (LIGHT, DARK))
    themes = f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    printed = f"@media print{{:root,.clew-view{{color-scheme:light;{light}}}}}"
    own = (files("clew.tour") / "report.css").read_text(encoding="utf-8")
    return f"{pages.stylesheet()}\n{themes}\n{own}\n{printed}"


def parts_of(findings: Mapping[str, Finding]) -> list[tuple[str, dict[str, Finding]]]:
    """Group the chapters on the two models and the experiments, each under its heading, without empty groups."""
    chapter_findings = {name: finding for name, finding in findings.items() if name in CHAPTERS}
    experiment_findings = {name: finding for name, finding in findings.items() if name not in CHAPTERS}
    return [
        (title, stops) for title, stops in zip(PARTS, (chapter_findings, experiment_findings), strict=True) if stops
    ]


def contents(findings: Mapping[str, Finding]) -> str:
    sections, number = [], 0
    for title, stops in parts_of(findings):
        items = []
        for name, finding in stops.items():
            number += 1
            items.append(f'<li value="{number}"><a href="#{markup(name)}">{markup(finding.title)}</a></li>')
        sections.append(f"<section><h2>{title}</h2><ol>{''.join(items)}</ol></section>")
    return "".join(sections)


def summary(findings: Mapping[str, Finding]) -> str:
    """Return one table of all rows, each with a link to its chapter."""
    rows = [
        f'<tr><td><a href="#{markup(name)}">{markup(what)}</a></td><td>{markup(claimed)}</td>'
        f'<td class="measured">{markup(measured)}</td></tr>'
        for name, finding in findings.items()
        for what, claimed, measured in finding.rows
    ]
    head = "<thead><tr><th>quantity</th><th>claimed</th><th>measured here</th></tr></thead>"
    table = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    return f'<section class="summary"><h2>Claimed and measured</h2>{table}</section>'


def chapters(findings: Mapping[str, Finding]) -> str:
    articles, number = [], 0
    for title, stops in parts_of(findings):
        articles.append(f'<h2 class="part-title">{title}</h2>')
        for name, finding in stops.items():
            number += 1
            articles.append(chapter(number, name, finding))
    return "\n".join(articles)


def chapter(number: int, name: str, finding: Finding) -> str:
    view = finding.view
    return f"""<article id="{markup(name)}">
<h2><span class="number">{number}</span> {markup(finding.title)}</h2>
<div class="pair"><div><h3>Claimed</h3><p>{markup(finding.claim)}</p></div>
<div class="found"><h3>Measured here</h3><p>{markup(finding.found)}</p></div></div>
{pages.fragment(view.title, view.about, view.parts, f"stop-{name}", heading="h3")}
<p class="made">{duration(finding.seconds)} · <code>clew tour --only {markup(name)}</code></p>
</article>"""


def duration(seconds: float) -> str:
    if seconds >= 90:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"
