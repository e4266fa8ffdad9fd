"""The documentation site: navigation, links, no requests to other hosts, and the equations of docstrings."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("docs", "clew", "examples", "zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
PACKAGES = sorted(path.parent.name for path in ROOT.glob("clew/*/__init__.py"))
FETCHED = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "link": "href",
    "use": "href",
    "image": "href",
}
NOT_FETCHED = {"canonical", "alternate", "prev", "next"}


def navigation(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for child in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
        yield from navigation(child)


def pages_in_navigation() -> list[str]:
    return list(navigation(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))


def test_every_page_is_in_the_navigation_once():
    pages = pages_in_navigation()
    assert sorted(pages) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_page_of_the_reference(package):
    assert (ROOT / "docs" / "api" / f"{package}.md").read_text(
        encoding="utf-8"
    ) == f"# clew.{package}\n\n::: clew.{package}\n"


class Page(HTMLParser):
    """The anchors, links, fetched resources and code of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self.code: list[str] = []
        self.depth = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.classes |= set(values.get("class", "").split())
        self.depth += tag == "pre"
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in FETCHED and FETCHED[tag] in values and not NOT_FETCHED & set(values.get("rel", "").split()):
            self.fetched.append(values[FETCHED[tag]])
        self.fetched += re.findall(r"url\(\s*['\"]?([^'\")]+)", values.get("style", ""))

    def handle_endtag(self, tag):
        self.depth -= tag == "pre"

    def handle_data(self, data):
        if self.depth:
            self.code.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings_handlers.python")
    folder = tmp_path_factory.mktemp("site")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    build = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def target(site: Path, page: Path, link: str) -> Path:
    """The file to which a link without a host leads."""
    path = unquote(urlsplit(link).path)
    place = page if not path else site / path.lstrip("/") if path.startswith("/") else page.parent / path
    place = place.resolve()
    return place / "index.html" if place.is_dir() else place


@pytest.mark.slow
def test_every_page_is_built(site, pages):
    expected = {
        site / name.removesuffix(".md") / "index.html"
        for name in pages_in_navigation()
        if not name.endswith("index.md")
    }
    expected |= {site / Path(name).with_suffix(".html") for name in pages_in_navigation() if name.endswith("index.md")}
    assert expected <= set(pages)


@pytest.mark.slow
def test_no_link_or_anchor_inside_the_site_is_broken(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or (path.name == "404.html" and link.startswith("/")):
                continue
            place = target(site, path, link)
            anchors = pages[place].anchors if place in pages else set()
            if not place.is_file() or (parts.fragment and place in pages and unquote(parts.fragment) not in anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


@pytest.mark.slow
def test_no_page_requests_anything_from_another_host(site, pages):
    foreign = [
        f"{path.relative_to(site)}: {name}"
        for path, page in pages.items()
        for name in page.fetched
        if urlsplit(name).netloc
    ]
    for sheet in site.rglob("*.css"):
        names = re.findall(r"(?:url\(|@import)\s*['\"]?([^'\");]+)", sheet.read_text(encoding="utf-8"))
        foreign += [f"{sheet.relative_to(site)}: {name}" for name in names if urlsplit(name).netloc]
    # The theme's script fetches a drawing library if a page has a diagram of this class.
    foreign += [f"{path.relative_to(site)}: a diagram" for path, page in pages.items() if "mermaid" in page.classes]
    assert not foreign


def equations(package: str) -> Iterator[str]:
    """The indented docstring lines of the public classes and functions that are defined in a package's files."""
    for file in sorted((ROOT / "clew" / package).glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                lines = (ast.get_docstring(node, clean=False) or "").splitlines()[1:]
                yield from (line.strip() for line in lines if line.startswith(" " * 8) and line.strip())


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_equations_of_docstrings_appear_unchanged_in_the_reference(package, site, pages):
    code = "".join(pages[site / "api" / package / "index.html"].code)
    assert [line for line in equations(package) if line not in code] == []


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """The address of a local server of the site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["", "results/", "course/", "guides/inspecting/", "notebooks/lecture/", "api/layers/"])
def test_a_page_fits_its_width_and_requests_nothing_from_other_hosts(name, width, address, browser):
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        foreign, errors = [], []
        page.on(
            "request",
            lambda request: (
                foreign.append(request.url) if not request.url.startswith((address, "data:", "blob:")) else None
            ),
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/{name}")
        page.wait_for_load_state("networkidle")
        assert (foreign, errors) == ([], [])
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_search_finds_a_class_by_its_name(address, browser):
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        page = context.new_page()
        page.goto(address)
        page.wait_for_load_state("networkidle")  # keys before the script has loaded would be lost
        page.keyboard.press("Control+k")
        page.keyboard.type("ChildSumTreeLSTM")
        page.wait_for_selector("a[href*='api/layers']:has-text('ChildSumTreeLSTM')")
