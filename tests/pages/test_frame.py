"""Signing in, datasets and one dataset, in a real browser."""

import json
import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.browser import Visitor
from tests.support.live import Live
from tests.support.service import SPEC, people


@pytest.fixture(scope="module")
def dataset(server: Live) -> str:
    headers = {"Authorization": f"Bearer {server.token}"}
    files = {"file": ("people.csv", people())}
    made = httpx.post(f"{server.url}/v1/datasets", headers=headers, data={"spec": json.dumps(SPEC)}, files=files)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


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
