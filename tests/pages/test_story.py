"""The hospital's story at a real server, its steward and its auditor in a real browser."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.demo import story
from purse import Client
from tests.support.browser import Visitor
from tests.support.live import Live


def _declare(page: Page, file: Path) -> str:
    """Declare unit, budget and columns on a page, register the file, and return the dataset's id."""
    page.get_by_role("link", name="Upload", exact=True).click()
    page.locator("summary", has_text="File format").click()
    page.locator("summary", has_text="More options of the dataset").click()
    page.get_by_label("Encoding").select_option(story.SPEC["dialect"]["encoding"])
    parts = {"dialect": story.SPEC["dialect"], "unit": story.SPEC["unit"], "budget": story.SPEC["budget"]}
    fields = {
        f"{part}.{name}": value
        for part, values in parts.items()
        for name, value in values.items()
        if name != "encoding"
    }
    for name, value in ({"name": story.SPEC["name"], "holdout": story.SPEC["holdout"]} | fields).items():
        control = page.locator(f"[name='{name}']")
        (control.select_option if control.evaluate("c => c.tagName") == "SELECT" else control.fill)(str(value))
    page.get_by_label("File (CSV").set_input_files(file)
    for undeclared in ("patient", "name"):
        expect(page.get_by_role("group", name=f"Column 1: {undeclared}")).to_be_visible()
        page.get_by_role("button", name="Remove column 1").click()
    for number, column in enumerate(story.SPEC["columns"], 1):
        group = page.get_by_role("group", name=f"Column {number}: {column['name']}")
        if column["type"] == "category":
            group.get_by_label("Type").select_option("category")
            group.get_by_label("Categories").fill("\n".join(column["categories"]))
        else:
            group.get_by_label("Lower").fill(str(column["lower"]))
            group.get_by_label("Upper").fill(str(column["upper"]))
    page.locator("summary", has_text="Targets").click()
    page.get_by_role("checkbox", name=story.TARGET).check()
    declared = page.get_by_label("Declaration, as JSON")
    expect(declared).to_have_value(re.compile('"targets": '))
    assert json.loads(declared.input_value()) == story.SPEC
    page.get_by_role("button", name="Upload and register").click()
    report = page.get_by_role("region", name="How the values were read")
    expect(report.get_by_role("row", name="kosten")).to_have_text(re.compile(r"kosten\s*8,000\s*–\s*0 %"))
    return str(page.get_by_role("link", name=story.SPEC["name"]).get_attribute("href")).rpartition("/")[2]


def test_the_story_starts_on_a_page_and_an_auditor_recomputes_it(
    browser: Browser, server: Live, tmp_path: Path
) -> None:
    def register(_: Client, file: Path) -> str:
        with Visitor.arrived(browser, server.url, server.token) as steward:
            return _declare(steward.page, file)

    story_results = story.run(server.url, server.token, tmp_path, register)
    assert story_results["wrong"] == ["kosten"]
    assert len(story_results["expected"]) == 6
    assert story_results["expected"][-1] > 0.6, "noise is small at epsilon 3"
    assert story_results["auc"]["low"] > 0.5, "better than chance, noise and sampling counted"
    assert story_results["recomputed"] == pytest.approx(2.0, rel=1e-2)
    assert story_results["refused"] == "budget_exhausted"
    with Visitor.arrived(browser, server.url, story_results["auditor"]) as visitor:
        page = visitor.page
        page.goto(f"/pages/datasets/{story_results['dataset']}/ledger")
        expect(page.locator("[data-at=state]")).to_contain_text("The server states the same.")
        for name, share in story_results["shares"].items():
            row = page.get_by_role("region", name="Shares by analyst").get_by_role("row", name=name)
            share_text = row.get_by_role("cell").last.inner_text().removesuffix(" %")
            assert float(share_text) == pytest.approx(100 * share, rel=1e-2)
        page.get_by_label("Files to check").set_input_files([tmp_path / "receipt.json", tmp_path / "keys.json"])
        checks = page.get_by_role("table", name="Checks")
        expect(checks).to_contain_text("it fits a public key of the service, and covers exactly this receipt")
        expect(checks).to_contain_text("this ledger is its release")
