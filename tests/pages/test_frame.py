"""Signing in, datasets and one dataset, in a real browser."""

import re

from playwright.sync_api import expect

from purse import Client
from tests.support.browser import Visitor
from tests.support.live import Live


def test_a_person_signs_in_looks_around_and_signs_out(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Datasets")
    visitor.check()
    page.get_by_role("link", name="people").click()
    expect(page).to_have_url(re.compile(rf"/pages/datasets/{dataset}$"))
    expect(page.get_by_role("region", name="Columns as declared")).to_contain_text("0 to 100")
    visitor.check()
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/pages")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert page.context.cookies() == []
    visitor.check()
    page.goto(f"/pages/datasets/{dataset}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_nothing_needs_a_mouse(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto("/pages")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="people")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/pages/datasets/{dataset}$"))


def test_a_steward_lets_an_analyst_in_for_a_part(visitor: Visitor, server: Live, dataset: str) -> None:
    page = visitor.page
    with Client(server.url, server.token) as client:
        token = client.tokens.create("ada <b>", "analyst").token
    page.goto(f"/pages/datasets/{dataset}")
    page.get_by_role("link", name="Grants and allotments").click()
    page.locator("#granted").fill("ada <b>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Grants so far")).to_contain_text("ada <b>")
    page.locator("#allotted").fill("ada <b>")
    page.locator("#share").fill("0.25")
    page.get_by_role("button", name="Allot", exact=True).click()
    expect(page.get_by_role("region", name="Allotments so far")).to_contain_text("25 %")
    visitor.check()
    page.locator("#allotted").fill("nobody")
    page.locator("#share").fill("0.25")
    page.get_by_role("button", name="Allot", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("no such thing")
    assert len(visitor.complaints) == 1  # the browser's own, of the 404
    visitor.complaints.clear()
    with Visitor.arrived(page.context.browser, server.url, token) as analyst:  # type: ignore[arg-type]
        analyst.page.get_by_role("link", name="people").click()
        expect(analyst.page.get_by_role("link", name="Grants")).to_have_count(0)
    page.get_by_role("button", name="Take back the allotment of ada <b>").click()
    expect(page.get_by_role("region", name="Allotments so far")).to_have_count(0)
    page.get_by_role("button", name="Revoke the grant of ada <b>").click()
    expect(page.get_by_role("region", name="Grants so far")).to_have_count(0)
