"""Text that is typed while an answer is on its way stays. The browser holds answers until the test releases them."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visitor, delayed
from tests.support.service import SPEC


@pytest.fixture
def page(visitor: Visitor) -> Page:
    visitor.page.goto("/pages/upload")
    return visitor.page


def _declared(page: Page) -> str:
    return page.get_by_label("Declaration, as JSON").input_value()


def test_text_typed_into_the_editor_during_a_step_stays(page: Page) -> None:
    first = page.get_by_role("group", name="Column 1")
    first.get_by_label("Name").fill("a")
    with delayed(page, "**/upload/editor"):
        with page.expect_request("**/upload/editor"):
            page.get_by_role("button", name="Add a column").click()
        first.get_by_label("Name").fill("age")
        first.get_by_label("Upper").press_sequentially("100")
        first.get_by_label("Upper").blur()
    expect(page.get_by_role("group", name="Column 2")).to_be_visible()
    first = page.get_by_role("group", name="Column 1: age")
    expect(first.get_by_label("Upper")).to_have_value("100")
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"upper": 100'))
    assert [column.get("name") for column in json.loads(_declared(page))["columns"]] == ["age", None]


def test_a_name_typed_while_a_files_names_are_loaded_stays(page: Page) -> None:
    with delayed(page, "**/upload/editor"):
        with page.expect_request("**/upload/editor"):
            file = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"sex,income\nf,2\n"}
            page.get_by_label("File (CSV").set_input_files(file)  # type: ignore[arg-type]
        page.get_by_role("group", name="Column 1").get_by_label("Name").press_sequentially("age")
    expect(page.get_by_role("group", name="Column 3: income")).to_be_visible()
    expect(page.get_by_role("group", name="Column 1: age")).to_be_visible()


def test_simultaneous_steps_are_all_executed(page: Page) -> None:
    """The second request contains the state from before the first answer."""
    with delayed(page, "**/upload/editor"):
        for _ in range(2):
            page.get_by_role("button", name="Add a column").click()
    expect(page.get_by_role("group", name="Column 3")).to_be_visible()


def test_a_declaration_says_the_last_that_was_filled_in(page: Page) -> None:
    with delayed(page, "**/upload/spec"):
        for label, value in (("Name", "hospital"), ("Epsilon", "2"), ("Delta", "1e-6")):
            page.get_by_label(label).first.fill(value)
            page.get_by_label(label).first.blur()
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"delta": 1e-06'))
    assert json.loads(_declared(page))["budget"] == {"epsilon": 2, "delta": 1e-6}


def test_a_long_request_shows_its_progress(visitor: Visitor, page: Page, dataset: str) -> None:
    """A forecast may take a minute, and an upload an hour. Without progress, readers press the button again."""
    file = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"sex\nf\n"}
    page.get_by_label("File (CSV").set_input_files(file)  # type: ignore[arg-type]
    going = page.get_by_role("progressbar", name="Upload in progress")
    with delayed(page, "**/pages/upload"):
        page.get_by_role("button", name="Upload and register").click()
        expect(going).to_be_visible()
    expect(page.get_by_role("alert")).to_be_visible()
    visitor.complaints.clear()  # the browser's own, of the 422
    expect(going).to_be_hidden()
    page.goto(f"/pages/datasets/{dataset}/new?kind=model")
    page.get_by_label("Target").select_option("income")
    going = page.get_by_role("progressbar", name="Forecast in progress")
    expect(going).to_be_hidden()
    with delayed(page, "**/forecast"):
        page.get_by_role("button", name="Forecast the accuracy").click()
        expect(going).to_be_visible()
    expect(page.get_by_role("region", name="Expected accuracy")).to_be_visible()
    expect(going).to_be_hidden()


def test_a_declaration_typed_while_another_is_loaded_stays(page: Page) -> None:
    with delayed(page, "**/upload/spec"):
        with page.expect_request("**/upload/spec"):
            page.get_by_label("Name").first.fill("hospital")
            page.get_by_label("Name").first.blur()
        page.locator("summary", has_text="Declaration as JSON").click()
        page.get_by_label("Declaration, as JSON").fill('{"name": "mine"}')
        expect(page.locator("#declaration")).to_have_class("htmx-request")
    expect(page.locator("#declaration")).not_to_have_class("htmx-request")
    assert _declared(page) == '{"name": "mine"}'


def test_fields_that_a_pasted_declaration_replaces_are_inert(visitor: Visitor, page: Page) -> None:
    page.locator("summary", has_text="File format").click()
    page.locator("#dialect-delimiter").fill(";")  # which the pasted one does not say
    page.locator("#dialect-delimiter").blur()
    editor = page.locator("#editor")
    declared = page.get_by_label("Declaration, as JSON")
    expect(declared).to_have_value(re.compile(";"))
    page.locator("summary", has_text="Declaration as JSON").click()
    declared.fill(json.dumps(SPEC))
    with delayed(page, "**/upload/editor"):
        with page.expect_request("**/upload/editor"):
            page.get_by_role("button", name="Show it in the editor").click()
        assert editor.evaluate("editor => [editor.inert, editor.ariaBusy]") == [True, "true"]
    expect(page.get_by_role("group", name="Column 3: income")).to_be_visible()
    expect(editor).to_have_attribute("aria-busy", "false")
    assert editor.evaluate("editor => editor.inert") is False
    expect(page.locator("#dialect-delimiter")).to_have_value("")
    page.get_by_role("group", name="Column 1").get_by_label("Upper").fill("90")
    page.get_by_role("group", name="Column 1").get_by_label("Upper").blur()
    expect(declared).to_have_value(re.compile('"upper": 90'))
    visitor.check()


def test_text_typed_into_a_jobs_form_while_its_fields_are_loaded_stays(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=model")
    epsilon = page.get_by_label("Epsilon", exact=False).first
    epsilon.fill("0.6")
    with delayed(page, "**/fields?kind=model"):
        with page.expect_request("**/fields?kind=model"):
            page.get_by_label("Method").select_option("dp_gd")
        epsilon.fill("0.7")
        page.get_by_label("Target").focus()
    expect(page.get_by_label("Steps")).to_be_visible()
    expect(epsilon).to_have_value("0.7")


@pytest.mark.parametrize("late", ["typed", "htmx.min"])
def test_a_method_that_is_chosen_before_a_script_has_arrived_shows_its_fields(
    visitor: Visitor, dataset: str, late: str
) -> None:
    page = visitor.page
    with delayed(page, f"**/{late}.js"):
        page.goto(f"/pages/datasets/{dataset}/new?kind=model", wait_until="commit")
        page.get_by_label("Epsilon", exact=False).first.fill("0.7")
        page.get_by_label("Method").select_option("dp_gd")
        page.wait_for_timeout(200)  # milliseconds, in which a script that is there already would begin
    expect(page.get_by_label("Steps")).to_be_visible()
    expect(page.get_by_label("Epsilon", exact=False).first).to_have_value("0.7")


def test_a_forecast_of_another_job_is_not_shown(visitor: Visitor, dataset: str) -> None:
    """A forecast beside a form that has changed since would be taken for a forecast of the form."""
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=model")
    page.get_by_label("Target").select_option("income")
    page.locator("summary", has_text="Assumptions").click()
    page.get_by_label("Runs").fill("3")
    forecast = page.locator("#forecast")
    button = page.get_by_role("button", name="Forecast the accuracy")
    button.click()
    expect(forecast).to_contain_text("a model of income by adaptive_gd")
    page.get_by_label("Epsilon", exact=False).first.fill("0.7")
    expect(forecast).to_contain_text("a model of income by adaptive_gd")
    page.get_by_label("Method").select_option("dp_gd")
    expect(forecast).to_have_text("The job has changed since the forecast. Request the forecast again.")
    expect(page.get_by_label("Steps")).to_be_visible()
    with delayed(page, "**/forecast"):
        button.click()
        expect(page.get_by_role("progressbar", name="Forecast in progress")).to_be_visible()
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/forecast")):
            page.get_by_label("Steps").fill("7")
        expect(page.get_by_role("progressbar", name="Forecast in progress")).to_be_hidden()
    expect(forecast).to_have_text("The job has changed since the forecast. Request the forecast again.")
    button.click()
    expect(forecast).to_contain_text("a model of income by dp_gd")
