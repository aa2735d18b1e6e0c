"""A dataset is declared, and a session on it is closed and its receipt verified, in a real browser."""

from playwright.sync_api import expect

from purse import Client
from tests.support.browser import Visitor
from tests.support.live import Live
from tests.support.patience import PATIENCE


def test_a_session_is_closed_and_its_receipt_checked_by_the_browser(visitor: Visitor, server: Live) -> None:
    page = visitor.page
    page.goto("/pages/declare")
    for name, value in {"name": "clinic", "rows": "2000", "budget.epsilon": "3", "budget.delta": "1e-6"}.items():
        page.locator(f"[name='{name}']").fill(value)
    page.get_by_role("button", name="Register the dataset").click()
    expect(page.get_by_role("heading", name="clinic")).to_be_visible()
    with Client(server.url, server.token, timeout=PATIENCE) as client:
        event = {"type": "GaussianDpEvent", "noise_multiplier": 40.0}
        events = [{"type": "SelfComposedDpEvent", "event": event, "count": 12}]
        session = client.sessions.open(dataset="clinic", events=events, title="twelve means")
        session.record(5)
    page.get_by_role("link", name="all sessions").click()
    page.get_by_role("link", name="twelve means").click()
    expect(page.get_by_role("region", name="Plan and recorded answers")).to_contain_text("5")
    visitor.check()
    page.get_by_role("button", name="Close the session").click()
    page.get_by_role("link", name="Check the receipt").click()
    expect(page.locator("output")).to_contain_text("The receipt is valid.")
    expect(page.locator("output")).to_contain_text("5 of 12")
    visitor.check()
