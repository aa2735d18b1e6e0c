"""The hospital's story at a real server, and its auditor in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from app.demo import story
from tests.support.browser import Visitor
from tests.support.live import Live


def test_the_story_ends_where_an_auditor_finds_it_again_in_a_browser(
    browser: Browser, server: Live, tmp_path: Path
) -> None:
    told = story.tell(server.url, server.token, tmp_path)
    assert told["wrong"] == ["kosten"]
    assert len(told["expected"]) == 6
    assert told["expected"][-1] > 0.6, "noise is small at epsilon 3"
    assert told["auc"]["low"] > 0.5, "better than chance, noise and sampling counted"
    assert told["recomputed"] == pytest.approx(2.0, rel=1e-2)
    assert told["refused"] == "budget_exhausted"
    with Visitor.arrived(browser, server.url, told["auditor"]) as visitor:
        page = visitor.page
        page.goto(f"/pages/datasets/{told['dataset']}/ledger")
        expect(page.locator("[data-at=state]")).to_contain_text("and the server says the same.")
        for name, share in told["shares"].items():
            row = page.get_by_role("region", name="Shares by analyst").get_by_role("row", name=name)
            shown = row.get_by_role("cell").last.inner_text().removesuffix(" %")
            assert float(shown) == pytest.approx(100 * share, rel=1e-2)
        page.get_by_label("Files to check").set_input_files([tmp_path / "receipt.json", tmp_path / "keys.json"])
        checks = page.get_by_role("table", name="Checks")
        expect(checks).to_contain_text("a key that you trust signed exactly this receipt")
        expect(checks).to_contain_text("this ledger is its release")
