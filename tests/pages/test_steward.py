"""A steward without a terminal: a token for an analyst, access to a dataset, and changes to it, in a real browser.

And the page of the interface, where everybody can read each request and try it.
"""

import json

from playwright.sync_api import Browser, expect

from tests.support.browser import Visitor
from tests.support.live import Live

# The style of `/docs` gives elements of the same names and classes, from the page's root on, the same colors.
MARK_ONE_OF_EACH_KIND = """() => {
  const kinds = new Set();
  for (const element of document.querySelectorAll("body *")) {
    let kind = "";
    for (let each = element; each; each = each.parentElement) kind += `${each.localName}.${each.className} `;
    const isEmpty = !(element.textContent.trim() || element.value);
    if (isEmpty || !element.checkVisibility() || kinds.has(kind)) continue;
    kinds.add(kind);
    element.dataset.kind = "";
  }
}"""


def test_an_analyst_is_let_in_without_a_terminal(
    browser: Browser, visitor: Visitor, server: Live, dataset: str
) -> None:
    page = visitor.page
    page.goto("/pages")
    page.get_by_role("link", name="Tokens").click()
    visitor.check()
    page.get_by_label("Name", exact=True).fill("grace")
    page.get_by_role("button", name="Make a token").click()
    token = page.get_by_role("status").locator("code").inner_text()
    visitor.check()
    page.goto(f"/pages/datasets/{dataset}/people")
    page.locator("#granted").fill("grace")
    page.get_by_role("button", name="Grant").click()
    expect(page.get_by_role("region", name="Grants so far")).to_contain_text("grace")
    with Visitor.arrived(browser, server.url, token) as analyst:
        expect(analyst.page.get_by_role("link", name="Tokens")).to_have_count(0)
        analyst.page.get_by_role("link", name="people").click()
        expect(analyst.page.get_by_role("link", name="Manage")).to_have_count(0)
        with analyst.page.expect_download() as rows:
            analyst.page.get_by_role("button", name="Download synthetic rows").click()
        assert rows.value.suggested_filename.endswith(".synthetic.csv")
        analyst.check()
    page.get_by_role("link", name="Tokens").click()
    revoke = page.get_by_role("button", name="Revoke the token of grace")
    revoke.press("Enter")
    dialog = page.get_by_role("dialog", name="Revoke this token of grace?")
    expect(dialog.get_by_role("button", name="Keep it")).to_be_focused()
    visitor.check()
    for _ in range(4):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('dialog *, body')"), "the focus left the open dialog"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(revoke).to_be_focused()
    visitor.confirm("Revoke the token of grace")
    expect(page.get_by_role("region", name="List of valid tokens")).not_to_contain_text("grace")


def test_a_dataset_is_managed_and_a_rejected_field_has_its_reason_beside_it(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}")
    page.get_by_role("link", name="Manage").click()
    page.get_by_role("button", name="Freeze the dataset").click()
    expect(page.get_by_role("status")).to_contain_text("frozen")
    page.get_by_role("button", name="Unfreeze the dataset").click()
    expect(page.get_by_role("region", name="Budget")).to_contain_text("only if you would have raised it whatever")
    page.locator("summary", has_text="Change the budget").click()
    page.locator("[name='budget.epsilon']").fill("a lot")
    page.locator("[name='budget.delta']").fill("1e-6")
    page.get_by_role("button", name="Change the budget").click()
    rejected = page.locator("[name='budget.epsilon']")
    expect(rejected).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#budget-epsilon-error")).to_be_visible()
    visitor.complaints.clear()  # the browser's own, of the 422
    for summary in page.locator("summary").all():
        if not summary.evaluate("summary => summary.parentElement.open"):
            summary.click()
    visitor.check()
    rejected.fill("4")
    expect(page.locator("#budget-epsilon-error")).to_have_count(0)
    page.get_by_role("button", name="Change the budget").click()
    expect(page.get_by_role("status")).to_contain_text("budget")


def test_a_request_is_tried_where_it_is_described(browser: Browser, server: Live) -> None:
    with Visitor.arrived(browser, server.url, None) as stranger:
        page = stranger.page
        page.goto("/docs")
        page.get_by_label("Filter routes").fill("post calib")
        expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["Calculate noise"])
        expect(page.get_by_role("status")).to_contain_text("1 of ")
        command = page.locator("details", has=page.locator("pre", has_text='POST "$PURSE_URL/v1/calibrations"'))
        command.locator("summary").click()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        command.get_by_role("button", name="Copy").click()
        assert "--json" in page.evaluate("navigator.clipboard.readText()")
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
        answer = json.loads(listing.locator("output").inner_text().partition("\n")[2])
        assert {token["role"] for token in answer["items"]} == {"steward"}
        page.evaluate(MARK_ONE_OF_EACH_KIND)
        assert page.locator("[data-kind]").count() > 30
        stranger.check(contrast="[data-kind]")
