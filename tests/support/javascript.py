"""Modules of the pages, run in a Chromium that reaches no network."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, Route

from app.pages.static_files import FOLDER

_CALL_EACH = """async ([path, asked]) => {
  const [name, calls] = JSON.parse(asked), module = await import(path), results = [];
  for (const args of calls) {
    try { results.push({ value: await module[name](...args) }); }
    catch (error) { results.push({ error: error.constructor.name, says: error.message }); }
  }
  return JSON.stringify(results);
}"""


class Thrown(Exception):
    """An error that a module threw: the name of its class, and its message."""


class Module:
    """The functions of a module; arguments and results are JSON.

    Parameters
    ----------
    page : the page that imports it
    name : its file under the pages' static files
    """

    def __init__(self, page: Page, name: str) -> None:
        self._page, self._path = page, f"/{name}"

    def answers(self, function: str, calls: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """Return the result of each call as `value`, or its error as `error` and `says`."""
        return json.loads(self._page.evaluate(_CALL_EACH, [self._path, json.dumps([function, calls])]))

    def evaluate(self, script: str) -> None:
        """Run a script that reads the module's exports as `module`."""
        self._page.evaluate(f"async (path) => {{ const module = await import(path); {script} }}", self._path)

    def call(self, function: str, *args: Any) -> Any:
        """Return the result of one call; raise `Thrown` if it throws."""
        (result,) = self.answers(function, [args])
        if "error" in result:
            raise Thrown(result["error"], result["says"])
        return result.get("value")


@contextmanager
def in_page(browser: Browser, name: str) -> Iterator[Module]:
    """Yield a module that a page with an https address has imported; the page reaches no network."""

    def serve(route: Route) -> None:
        file = FOLDER / route.request.url.split("/", 3)[3].split("?")[0]
        kind = "text/javascript" if file.is_file() else "text/html"
        route.fulfill(body=file.read_bytes() if file.is_file() else b"", content_type=kind)

    page = browser.new_page()
    page.route("**/*", serve)
    page.goto("https://pages.test/")
    yield Module(page, name)
    page.close()
