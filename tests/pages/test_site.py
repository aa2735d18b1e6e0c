"""The documentation site: it is built strictly and completely, loads nothing from other hosts, and can be searched."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Browser, Page

from app.cli.table import COMMANDS
from tests.support.console import commands, steps
from tests.support.patience import PATIENCE
from tests.support.site import listed, search_options

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|object|embed|form|link|use)\b[^>]*?"
    r"\b(?:src|srcset|href|data|action)=\"?([^\" >]+)"
)

REFERENCE = {"reference/commands.md", "reference/http.md", "reference/python.md"}
FIRST_RESULTS = {
    "what is epsilon": "concepts.html",
    "epsilon": "concepts.html",
    "delta": "concepts.html",
    "glossary": "glossary.html",
    "FAQ": "faq.html",
    "troubleshooting": "faq.html",
    "windows": "faq.html",
    "quickstart": "index.html",
    "cookbook": "cookbook.html",
    "install": "python.html",
    "tutorial": "tutorial.html",
    "backup": "operations.html",
    "threat model": "threat-model.html",
}
RESULT_LINK = ".md-search-result__item a.md-search-result__link"


@dataclass(frozen=True, slots=True)
class Site:
    """The folder of the built site, its pages by name, and the documents that its menu lists."""

    folder: Path
    pages: dict[str, str]
    menu: list[str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Build the site. The build is strict and fails on a link or an anchor that does not exist."""
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
    build(config)
    pages = {str(page.relative_to(folder)): page.read_text() for page in folder.rglob("*.html")}
    return Site(folder, pages, listed(config.nav))


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves the files of a folder without a log."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def search_page(browser: Browser, site: Site) -> Iterator[Page]:
    """The first page of the site in a browser."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site.folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(base_url=f"http://127.0.0.1:{server.server_port}")
        page.set_default_timeout(1e3 * PATIENCE)
        yield page
        page.close()
        server.shutdown()


@pytest.mark.slow
def test_every_page_is_on_it_and_in_its_menu(site: Site) -> None:
    documents = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert "decisions/README.md" in documents
    assert set(site.menu) == documents | {"index.md", "notebook.md", *REFERENCE}
    assert len(site.menu) == len(set(site.menu)), "each once"
    assert {page.replace("README.md", "index.md").replace(".md", ".html") for page in documents} <= set(site.pages)


@pytest.mark.slow
def test_no_other_server_is_contacted(site: Site) -> None:
    loaded = {source for page in site.pages.values() for source in LOADED.findall(page)}
    assert any(source.endswith(".css") for source in loaded)
    assert {source for source in loaded if re.match(r"[a-z+.-]+:|//", source)} == set()
    assert not any('class="mermaid"' in page for page in site.pages.values()), "the theme fetches what draws these"


@pytest.mark.slow
def test_a_list_has_an_empty_line_before_it(site: Site) -> None:
    """Markdown on GitHub does without, the site's does not."""
    lost = {
        (name, line)
        for name, page in site.pages.items()
        for line in re.findall(r"^(?:- |\| ?-).*", _prose(page), re.MULTILINE)
    }
    assert lost == set()


@pytest.mark.slow
def test_the_reference_is_from_code(site: Site) -> None:
    commands, http, python = (site.pages[page.replace(".md", ".html")] for page in sorted(REFERENCE))
    assert {command.words for command in COMMANDS if f"purse {command.words}" not in commands} == set()
    assert "POST /v1/quotes" in http
    assert 'id="jobrequest"' in http
    assert "purse.Client" in python
    assert "purse.estimators.BudgetAccountant" in python
    assert "<strong>Parameters</strong>" in python
    assert "-----" not in python, "sections of docstrings are lists"


@pytest.mark.slow
def test_formulas_are_no_markup(site: Site) -> None:
    page = site.pages["methods/objective_perturbation.html"]
    assert "&lt;b, w&gt; / n" in page
    assert "||w* - x_0|| &lt;= D." in site.pages["proofs/phases.html"]


@pytest.mark.slow
def test_the_copy_button_copies_commands_without_prompts_and_outputs(site: Site) -> None:
    copied = [html.unescape(text) for text in re.findall(r'data-copy="([^"]*)"', site.pages["tutorial.html"])]
    expected_commands = [command for command, _ in steps(DOCS / "tutorial.md")]
    assert "\n".join(copied).startswith("\n".join(expected_commands))
    assert "data-copy" not in site.pages["settings.html"]


def test_commands_of_a_session_keep_their_here_documents() -> None:
    session = "$ cat > a <<'END'\n{}\nEND\n$ purse budget a\nshare  0 %\n"
    assert commands(session).splitlines() == ["cat > a <<'END'", "{}", "END", "purse budget a"]
    assert commands("purse serve\n") == ""


def test_the_search_prefers_user_pages() -> None:
    boosts = [search_options(page)["boost"] for page in ("concepts.md", "how-to/analyst.md", "reviewing.md")]
    assert boosts == sorted(set(boosts), reverse=True)
    assert search_options("proofs/filter.md") == search_options("reference/http.md") == search_options("reviewing.md")
    assert search_options("source/app/main.py.md") == {"exclude": True}
    assert "exclude" not in search_options("source/CONTRIBUTING.md")


@pytest.mark.slow
def test_a_search_lists_the_page_for_users_first(search_page: Page) -> None:
    search_page.goto("/index.html?q=loads+the+index")
    field, links = search_page.locator("input.md-search__input"), search_page.locator(RESULT_LINK)
    links.first.wait_for(state="attached")
    first_results = {}
    for query in FIRST_RESULTS:
        field.fill("")
        field.press("End")  # the page reads the field when a key is released
        links.first.wait_for(state="detached")
        field.fill(query)
        field.press("End")
        links.first.wait_for(state="attached")
        path, _, _ = str(links.first.get_attribute("href")).partition("?")
        first_results[query] = Path(path.partition("#")[0]).name
    assert first_results == FIRST_RESULTS


def _prose(page: str) -> str:
    return re.sub(r"<(pre|script)\b.*?</\1>", "", page, flags=re.DOTALL)
