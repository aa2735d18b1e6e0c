"""One Chromium and one server for each file of pages; what cannot be done without a browser is skipped and says so."""

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from purse import Client
from tests.support.browser import NO_CHROMIUM, Visitor, find_chromium
from tests.support.live import Live, live
from tests.support.patience import PATIENCE
from tests.support.service import SPEC, people

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
QUIET = ("--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium. Tests that need it are skipped if it is not installed or does not start."""
    with sync_playwright() as playwright:
        executable = find_chromium(playwright.chromium.executable_path)
        if executable is None:
            pytest.skip(NO_CHROMIUM)
        try:
            patience = 1e3 * PATIENCE  # milliseconds
            started = playwright.chromium.launch(executable_path=executable, args=[*FLAGS, *QUIET], timeout=patience)
        except Error as why:
            pytest.skip(f"{executable} does not start: {why.message.splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A service with nothing in it, on a port of this machine."""
    with live(tmp_path_factory.mktemp("pages") / "home") as served:
        yield served


@pytest.fixture(scope="module")
def dataset(server: Live, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset called people, of which nothing is spent."""
    file = tmp_path_factory.mktemp("file") / "people.csv"
    file.write_bytes(people())
    with Client(server.url, server.token, timeout=PATIENCE) as client:
        return client.datasets.upload(file, spec=SPEC).id


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A report of what fails begins with what was asked and not yet answered, and with what the browser complained of:
    the page as it stood is long, and a log may keep its beginning alone."""
    report = yield
    visitor = getattr(item, "funcargs", {}).get("visitor")
    if report.failed and call.when == "call" and visitor is not None:
        report.longrepr = f"{visitor.exchanges()}\n\n{report.longrepr}"
    return report


@pytest.fixture
def visitor(browser: Browser, server: Live) -> Iterator[Visitor]:
    """The steward, signed in, no page open. At the end, no request may have left for elsewhere, nor been refused."""
    with Visitor.arrived(browser, server.url, server.token, first=None) as arrived:
        yield arrived
