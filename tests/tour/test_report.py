import re
from html.parser import HTMLParser

from clew.tour.chapters import CHAPTERS
from clew.tour.report import report_html
from tests.instruments.samples import HOSTILE
from tests.tour.findings import finding


class Elements(HTMLParser):
    """All elements of a page with their attributes, and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_texts_are_escaped() -> None:
    for text in HOSTILE:
        page = report_html({"reach": finding(text)}, "quick", 0)
        elements = Elements(page)
        assert [tag for tag, _ in elements.elements].count("script") == 1
        assert not {"iframe", "object", "base"} & {tag for tag, _ in elements.elements}
        assert not any(name.startswith("on") for _, attributes in elements.elements for name in attributes)


def test_every_finding_is_listed_summarised_and_shown() -> None:
    findings = {"models": finding("Two models"), "reach": finding("How far"), "search": finding("Greedy")}
    page = report_html(findings, "tour", 7)
    elements = Elements(page)
    ids = [attributes["id"] for _, attributes in elements.elements if "id" in attributes]
    links = [attributes["href"] for tag, attributes in elements.elements if tag == "a"]
    assert len(ids) == len(set(ids))
    for name, one in findings.items():
        assert name in ids and links.count(f"#{name}") == 2
        for part in (one.title, one.claim, one.measured):
            assert part in elements.text
    assert "models" in CHAPTERS and elements.text.index("Two models is claimed") < elements.text.index(
        "How far is claimed"
    )
    assert "Seed 7" in elements.text


def test_the_page_loads_no_other_files() -> None:
    page = report_html({"reach": finding()}, "full", 0)
    assert not re.search(r"(src|href)=\"(?!#|data:)", page) and "@import" not in page and "url(http" not in page
    assert "default-src 'none'" in page and "prefers-color-scheme" in page and "@media print" in page
