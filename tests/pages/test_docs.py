"""The page of the interface: a request is tried there, by one script of our own, and everybody can read it."""

import json

from playwright.sync_api import Browser, expect

from tests.support.browser import Visitor
from tests.support.live import Live


def test_a_request_is_tried_where_it_is_described(browser: Browser, server: Live) -> None:
    with Visitor.arrived(browser, server.url, None) as stranger:
        page = stranger.page
        page.goto("/docs")
        page.get_by_label("Token", exact=True).fill(server.token)
        page.locator("summary", has_text="Try POST /v1/calibrations").click()
        form = page.locator("form[data-path='/v1/calibrations']")
        form.get_by_role("button", name="Send").click()
        expect(form.locator("output")).to_contain_text("noise_multiplier")
        assert form.locator("output").inner_text().startswith("200\n")
        page.locator("summary", has_text="Try GET /v1/tokens").click()
        listing = page.locator("form[data-path='/v1/tokens'][data-method='GET']")
        listing.get_by_label("role").fill("steward")
        listing.get_by_role("button", name="Send").click()
        expect(listing.locator("output")).to_contain_text("bootstrap")
        told = json.loads(listing.locator("output").inner_text().partition("\n")[2])
        assert {token["role"] for token in told["items"]} == {"steward"}
        stranger.check()
