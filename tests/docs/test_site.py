"""The documents are a site: built strictly, whole, and asking no other server for anything."""

import html
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.support.console import commands, steps
from tests.support.site import listed, search_options

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|object|embed|form|link|use)\b[^>]*?"
    r"\b(?:src|srcset|href|data|action)=\"?([^\" >]+)"
)

REFERENCE = {"reference/commands.md", "reference/http.md", "reference/python.md"}


@dataclass(frozen=True, slots=True)
class Site:
    """Its pages by name, and the documents that its menu lists."""

    pages: dict[str, str]
    menu: list[str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Strict: a link or an anchor that leads nowhere ends it. Without the index for searching, a third of the time."""
    place = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place), plugins=[])
    build(config)
    pages = {str(page.relative_to(place)): page.read_text() for page in place.rglob("*.html")}
    return Site(pages, listed(config.nav))


@pytest.mark.slow
def test_every_page_is_on_it_and_in_its_menu(site: Site) -> None:
    documents = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert "decisions/README.md" in documents
    assert set(site.menu) == documents | {"index.md", "notebook.md", *REFERENCE}
    assert len(site.menu) == len(set(site.menu)), "each once"
    assert {page.replace("README.md", "index.md").replace(".md", ".html") for page in documents} <= set(site.pages)


@pytest.mark.slow
def test_nothing_is_asked_of_another_server(site: Site) -> None:
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
    assert "Count rows by the values of one or more columns" in commands
    assert "POST /v1/quotes" in http
    assert 'id="jobrequest"' in http
    assert "purse.Client" in python
    assert "purse.estimators.BudgetAccountant" in python


@pytest.mark.slow
def test_formulas_are_no_markup(site: Site) -> None:
    page = site.pages["methods/objective_perturbation.html"]
    assert "&lt;b, w&gt; / n" in page
    assert "minimizes Phi over C, and ||w* - x_0|| &lt;= D." in site.pages["proofs/phases.html"]


@pytest.mark.slow
def test_the_copy_button_copies_commands_without_prompts_and_outputs(site: Site) -> None:
    copied = [html.unescape(text) for text in re.findall(r'data-copy="([^"]*)"', site.pages["tutorial.html"])]
    shown = [command for command, _ in steps(DOCS / "tutorial.md")]
    assert "\n".join(copied).startswith("\n".join(shown))
    assert "data-copy" not in site.pages["settings.html"]


def test_commands_of_a_session_keep_their_here_documents() -> None:
    session = "$ cat > a <<'END'\n{}\nEND\n$ purse budget a\nshare  0 %\n"
    assert commands(session) == "cat > a <<'END'\n{}\nEND\npurse budget a"
    assert commands("purse serve\n") == ""


def test_the_search_prefers_user_pages() -> None:
    boosts = [search_options(page)["boost"] for page in ("concepts.md", "how-to/analyst.md", "reviewing.md")]
    assert boosts == sorted(set(boosts), reverse=True)
    assert search_options("proofs/filter.md") == search_options("reference/http.md") == search_options("reviewing.md")
    assert search_options("source/app/main.py.md") == {"exclude": True}
    assert "exclude" not in search_options("source/CONTRIBUTING.md")


def _prose(page: str) -> str:
    return re.sub(r"<(pre|script)\b.*?</\1>", "", page, flags=re.DOTALL)
