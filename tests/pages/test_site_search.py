"""The search of the documentation site finds the page for users first."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Browser, Page

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
FOUND = {
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
FIRST = ".md-search-result__item a.md-search-result__link"


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a log."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def searched(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser at the site, which is built with its search index."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(base_url=f"http://127.0.0.1:{server.server_port}")
        page.set_default_timeout(1e3 * PATIENCE)
        yield page
        page.close()
        server.shutdown()


@pytest.mark.slow
def test_the_first_page_found_is_for_users(searched: Page) -> None:
    first = {}
    for query in FOUND:
        searched.goto(f"/index.html?q={quote(query)}")
        searched.wait_for_selector(FIRST)
        address = searched.locator(FIRST).first.get_attribute("href")
        first[query] = Path(str(address).partition("?")[0].partition("#")[0]).name
    assert first == FOUND
