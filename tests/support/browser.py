"""A visitor with a real browser: what they ask for, what their browser complains of, and whether all can use a page."""

import base64
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Route, expect, sync_playwright

from app.pages.session import COOKIE, PREFIX

DESK, PHONE = {"width": 1000, "height": 720}, {"width": 390, "height": 844}
_PICTURE_HEIGHT = 1000  # pixels
_AS_WEBP = """async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.6);
}"""
_AXE = Axe()
_WAIT_MILLISECONDS = 120_000  # for one step of a page, which a load of 20 slows tenfold
_PHONE_RULES = [
    *("color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"),
    *("empty-table-header", "scope-attr-valid", "table-duplicate-name", "td-has-header", "td-headers-attr"),
    "th-has-data-cells",
]
_CUT_BARS = """[...document.querySelectorAll(".table:has(.bars)")]
  .filter((region) => region.scrollWidth > region.clientWidth).length"""
_REPORT_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`Content Security Policy: ${event.effectiveDirective} blocked ${event.blockedURI} ${event.sample}`))"""
expect.set_options(timeout=_WAIT_MILLISECONDS)
# A price is dimmed until its answer arrives, at a time that a check cannot know.
_UNDIMMED = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("#quote, #charge { opacity: 1 !important }");
  document.adoptedStyleSheets = [sheet];
}"""


@dataclass(slots=True)
class Visitor:
    """Somebody with a page open.

    Parameters
    ----------
    page : Playwright's
    url : of the service
    elsewhere : addresses of other origins that were asked for
    complaints : errors and warnings of the browser's console, violations of the page's Content Security Policy, and
        exceptions of scripts
    waiting : what was asked and is not answered
    last : what was asked last, and how it ended
    """

    page: Page
    url: str
    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=20))

    @classmethod
    @contextmanager
    def arrived(
        cls, browser: Browser, url: str, token: str | None, first: str | None = PREFIX, **options: Any
    ) -> Iterator["Visitor"]:
        """Start a new context, signed in by a token, and open the first page if there is one.

        At the end, fail if the browser has asked another origin or has reported an error.
        """
        # colors change at once, so that axe does not measure one that is about to change
        options = {"viewport": DESK, "reduced_motion": "reduce"} | options
        context = browser.new_context(base_url=url, **options)
        try:
            context.set_default_timeout(_WAIT_MILLISECONDS)
            visitor = cls(context.new_page(), url)
            context.on("request", lambda request: visitor._requested(request))
            context.on("requestfinished", lambda request: visitor._answered(request, "answered"))
            context.on("requestfailed", lambda request: visitor._answered(request, request.failure or "failed"))
            context.on("weberror", lambda error: visitor.complaints.append(str(error.error)))
            context.on("console", lambda message: visitor._logged(message))
            context.add_init_script(_REPORT_VIOLATIONS)
            if token is not None:
                cookie = {"name": COOKIE, "value": token, "domain": urlsplit(url).hostname, "path": PREFIX}
                context.add_cookies([cookie | {"httpOnly": True, "sameSite": "Strict"}])  # type: ignore[list-item]
                if first is not None:
                    visitor.page.goto(first)
            yield visitor
            assert visitor.elsewhere == []
            assert visitor.complaints == [], visitor.complaints
        finally:
            context.close()

    def sign_in(self, token: str) -> None:
        """Sign in by the form, as a person does."""
        self.page.goto("/")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def confirm(self, name: str) -> None:
        """Click a button whose name begins so, and confirm in the dialog that it opens."""
        self.page.get_by_role("button", name=name).click()
        self.page.get_by_role("dialog").get_by_role("button").last.click()

    def check(self, contrast: str = "*") -> None:
        """Fail if axe finds a violation, a page is too wide, or bars are cut: on a desk in light, on a phone in dark.

        A phone sees the same elements in other sizes, but for the heads of tables, as a test of the styles checks. So
        axe runs only the rules about colours, sizes and tables there.

        Parameters
        ----------
        contrast : selects the elements whose contrast is measured; all thousands of a long page take a minute of CPU
        """
        self.page.evaluate(_AXE.axe_script)
        self.page.evaluate("(selector) => axe.configure({ rules: [{ id: 'color-contrast', selector }] })", contrast)
        self.page.evaluate(_UNDIMMED)
        for scheme, size, rules in (("light", DESK, None), ("dark", PHONE, _PHONE_RULES)):
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            self.page.set_viewport_size(size)  # type: ignore[arg-type]
            options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
            results = AxeResults(self.page.evaluate("(options) => axe.run(options)", options))
            assert results.violations_count == 0, f"{self.page.url}, {scheme}: {results.generate_report()}"
            excess = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert excess <= 0, f"{self.page.url} is wider than {size['width']} pixels"
            cut = self.page.evaluate(_CUT_BARS)
            assert cut == 0, f"{self.page.url} cuts the bars of {cut} tables at {size['width']} pixels"
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size(DESK)  # type: ignore[arg-type]

    def shoot(self, name: str, size: dict[str, int] = DESK, scheme: Literal["light", "dark"] = "light") -> None:
        """Write a picture of the page's upper part, if `make screenshots` asks for pictures."""
        if "SCREENSHOTS" not in os.environ:
            return
        self.page.set_viewport_size(size)  # type: ignore[arg-type]
        self.page.emulate_media(color_scheme=scheme)
        top = self.page.evaluate("scrollY")
        height = min(self.page.evaluate("document.documentElement.scrollHeight") - top, _PICTURE_HEIGHT)
        clip = {"x": 0, "y": top, "width": size["width"], "height": height}
        picture = self.page.screenshot(full_page=True, clip=clip, caret="hide")  # type: ignore[arg-type]
        (Path(os.environ["SCREENSHOTS"]) / f"{name}.webp").write_bytes(self._compressed(picture))
        self.page.set_viewport_size(DESK)  # type: ignore[arg-type]
        self.page.emulate_media(color_scheme="light")

    def _compressed(self, picture: bytes) -> bytes:
        """Return a picture as WebP, which the browser writes: a fifth of its size as PNG."""
        with self.page.context.new_page() as page:
            address = page.evaluate(_AS_WEBP, base64.b64encode(picture).decode())
        return base64.b64decode(address.partition(",")[2])

    def exchanges(self) -> str:
        """Return the last exchanges between browser and service, and those that still wait."""
        return f"waiting: {self.waiting}\nlast: {[*self.last]}\ncomplaints: {self.complaints}"

    def _answered(self, request: Request, how: str) -> None:
        name = f"{request.method} {urlsplit(request.url).path}"
        if name in self.waiting:
            self.waiting.remove(name)
        self.last.append(f"{name} {how}")

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _requested(self, request: Request) -> None:
        self.waiting.append(f"{request.method} {urlsplit(request.url).path}")
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.elsewhere.append(request.url)


_CHROMIUM_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_CHROMIUM = (
    "Chromium not found. Debian and Ubuntu: apt-get install chromium. "
    "Elsewhere: .venv/bin/playwright install chromium, or set CHROMIUM to the path of a browser."
)


def find_chromium(downloaded: str) -> str | None:
    """Return the path of a Chromium: that of CHROMIUM, the system's, Playwright's download; None if none is installed.

    Parameters
    ----------
    downloaded : the path at which Playwright's own download would be
    """
    candidates = (os.environ.get("CHROMIUM"), *_CHROMIUM_COMMANDS, downloaded)
    return next(filter(None, (shutil.which(candidate) for candidate in candidates if candidate)), None)


def _is_missing() -> bool:
    """Return whether the tests of the pages find no browser."""
    with sync_playwright() as playwright:
        return find_chromium(playwright.chromium.executable_path) is None


@contextmanager
def delayed(page: Page, path: str) -> Iterator[None]:
    """Delay requests for this path until the end of the block; later ones pass."""
    routes, is_over = list[Route](), Event()
    page.route(path, lambda route: route.continue_() if is_over.is_set() else routes.append(route))
    yield
    is_over.set()
    for route in routes:
        route.continue_()


if __name__ == "__main__":  # for `.ci/run`
    sys.exit(_is_missing())
