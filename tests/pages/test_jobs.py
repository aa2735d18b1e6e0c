"""A job from its form to its release, in a real browser: priced while epsilon moves, by keyboard alone, live."""

import re

from playwright.sync_api import Page, expect

from purse import Client
from tests.support.browser import Visitor


def _share(page: Page) -> float:
    told = page.locator("#quote dd").first
    expect(told).to_contain_text("of the budget")
    return float(told.inner_text().split(" ")[0])


def test_moving_epsilon_shows_what_it_costs_before_anything_is_spent(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}")
    page.get_by_role("link", name="New model").click()
    expect(page.locator("#quote")).to_contain_text("target")  # what is still to be said
    page.get_by_label("Target").select_option("income")
    before = _share(page)
    visitor.shoot("job")
    expect(page.locator("#positive option")).to_have_text(["by default", "low", "high"])
    epsilon = page.get_by_label("Epsilon", exact=False).first
    page.get_by_role("slider").press("ArrowRight")
    assert float(epsilon.input_value()) > 0.5
    with page.expect_response(re.compile("/quote")):
        page.get_by_role("slider").press("ArrowRight")
    expect(page.locator("#quote dd").first).not_to_contain_text(f"{before:.3g} %")
    assert _share(page) > before
    noise = page.get_by_role("region", name="Noise of each query").locator("td").nth(1)
    assert float(noise.inner_text().replace(",", "")) > 0
    page.get_by_label("Method").select_option("dp_gd")
    page.get_by_label("Steps").fill("7")
    expect(page.locator("#quote")).to_contain_text("dp_gd")
    page.get_by_label("Steps").fill("none")
    expect(page.locator("#quote")).to_contain_text(re.compile(r"steps\s+Input should be"))
    page.locator("#method-name").select_option("")
    page.locator("summary", has_text="More choices").click()
    visitor.check()
    with Client(visitor.url, page.context.cookies()[0]["value"]) as client:
        assert client.datasets.budget(dataset).share == 0


def test_a_job_is_asked_for_by_keyboard_alone_and_its_end_is_told(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=model")
    expect(page.locator("#quote .wrong")).to_be_visible()
    reached = _tab_to(page, "target")
    page.keyboard.type("income")  # a select takes the first that begins so
    expect(page.locator("#quote strong").first).to_contain_text("%")
    reached += _tab_to(page, "privacy.epsilon")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.7")
    assert {"positive", "method.name"} <= set(reached)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/pages/jobs/job_"))
    expect(page.get_by_role("status")).to_have_text("It is done.")
    expect(page.get_by_role("region", name="Coefficients of encoded values")).to_contain_text("sex = f")
    expect(page.get_by_text("epsilon 0.7 at delta")).to_be_visible()
    visitor.check()
    with page.expect_download() as receipt:
        page.get_by_role("link", name="Receipt").click()
    assert receipt.value.suggested_filename.endswith(".receipt.json")


def test_a_statistic_is_shown_with_what_its_noise_hides(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=statistic")
    page.get_by_label("Method").select_option("counts")
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="sex").check()
    expect(page.locator("#quote dd").first).to_contain_text("of the budget")
    page.get_by_role("button", name="Charge and run").click()
    expect(page.get_by_role("status")).to_have_text("It is done.")
    expect(page.get_by_role("row", name=re.compile("^m "))).to_be_visible()
    page.goto(f"/pages/datasets/{dataset}")
    expect(page.get_by_role("region", name="Shares by method")).to_contain_text("counts")
    expect(page.get_by_role("region", name="Shares by analyst")).to_contain_text("bootstrap")
    visitor.shoot("budget")
    visitor.check()
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_role("region", name="Jobs")).to_contain_text("counts")
    visitor.check()


def _tab_to(page: Page, name: str) -> list[str]:
    """The names of the controls that Tab comes by on the way to this one."""
    passed: list[str] = []
    while len(passed) < 60:
        page.keyboard.press("Tab")
        passed.append(page.evaluate("document.activeElement.name || document.activeElement.tagName"))
        if passed[-1] == name:
            return passed
    raise AssertionError(f"{name} is not reached: {passed}")
