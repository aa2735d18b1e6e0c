"""Modules of the pages, run where they may run: in Node, and in a Chromium that reaches no network."""

import json
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from playwright.sync_api import Browser, Page, Route

from app.pages.static_files import FOLDER

# One call after another: what each returns, or the name and the words of what it throws.
_ALL = """async (module, asked) => {
  const [name, calls] = JSON.parse(asked);
  const found = [];
  for (const args of calls) {
    try { found.push({ value: await module[name](...args) }); }
    catch (error) { found.push({ error: error.constructor.name, says: error.message }); }
  }
  return JSON.stringify(found);
}"""


class Thrown(Exception):
    """What a module threw: the name of its class, and its words."""


class AbstractModule(ABC):
    """A module's functions; arguments and answers are JSON."""

    @abstractmethod
    def answers(self, function: str, calls: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """What each call returns as `value`, or what it throws as `error` and `says`."""

    @final
    def call(self, function: str, *args: Any) -> Any:
        """What it returns; `Thrown` if it throws."""
        (found,) = self.answers(function, [args])
        if "error" in found:
            raise Thrown(found["error"], found["says"])
        return found.get("value")


class _Node(AbstractModule):
    def __init__(self, module: Path) -> None:
        code = f"""import * as module from {json.dumps(module.as_uri())};
            import {{ createInterface }} from "node:readline";
            const all = {_ALL};
            for await (const line of createInterface({{ input: process.stdin }})) {{
              console.log(await all(module, line));
            }}"""
        command = [str(shutil.which("node")), "--input-type=module", "--no-warnings", "-e", code]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answers(self, function: str, calls: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([function, calls]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class _Page(AbstractModule):
    def __init__(self, page: Page, module: Path) -> None:
        self.page, self.path = page, f"/{module.relative_to(FOLDER)}"

    def answers(self, function: str, calls: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        code = f"async ([path, asked]) => ({_ALL})(await import(path), asked)"
        return json.loads(self.page.evaluate(code, [self.path, json.dumps([function, calls])]))


@contextmanager
def in_node(module: str) -> Iterator[AbstractModule]:
    """The module of this name under the pages' static files, in Node."""
    found = _Node(FOLDER / module)
    try:
        yield found
    finally:
        with found.process:
            assert found.process.stdin is not None
            found.process.stdin.close()


@contextmanager
def in_page(browser: Browser, module: str) -> Iterator[AbstractModule]:
    """The same in a browser, on a page that came by https and can ask nobody for anything."""

    def serve(route: Route) -> None:
        file = FOLDER / route.request.url.split("/", 3)[3].split("?")[0]
        kind = "text/javascript" if file.is_file() else "text/html"
        route.fulfill(body=file.read_bytes() if file.is_file() else b"", content_type=kind)

    page = browser.new_page()
    page.route("**/*", serve)
    page.goto("https://pages.test/")
    yield _Page(page, FOLDER / module)
    page.close()
