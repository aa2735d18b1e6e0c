"""Every click counts: before the page's scripts have arrived, and while an answer changes the page."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from purse import Client
from tests.support.browser import Visitor, delayed
from tests.support.live import Live

SOON_MILLISECONDS = 60_000  # from now, so that a slow browser can still pause its clock before that time
ANSWER_MILLISECONDS = 300  # an answer that does not wait for the pointer is shown within this time


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.page


def _form(dataset: str, kind: str) -> str:
    return f"/pages/datasets/{dataset}/new?kind={kind}"


def _center(button: Locator) -> tuple[float, float]:
    """Return the center of a button, where a pointer presses it."""
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _press(page: Page, button: Locator) -> None:
    page.mouse.move(*_center(button))
    page.mouse.down()


FIRST_CLICKS = {
    "Forecast the accuracy": ("/pages/datasets/{}/new?kind=model", "#target:focus"),  # which must be chosen first
    "Assumptions": ("/pages/datasets/{}/new?kind=model", "#which details[open]"),
    "Add a candidate": ("/pages/datasets/{}/new?kind=tuning", "legend:text-is('Candidate 3')"),
    "Add a column": ("/pages/upload", "legend:has-text('Column 2')"),
    "Remove column 1": ("/pages/upload", "#columns:not(:has(fieldset))"),
    "File format": ("/pages/upload", "#format[open]"),
    "Make a token": ("/pages/tokens", "#name:focus"),
    "Grant": ("/pages/datasets/{}/people", "#granted:focus"),
}


@pytest.mark.parametrize("control", FIRST_CLICKS)
def test_a_click_counts_as_soon_as_its_control_is_shown(page: Page, dataset: str, control: str) -> None:
    path, outcome = FIRST_CLICKS[control]
    with delayed(page, "**/htmx.min.js"):
        page.goto(path.format(dataset), wait_until="commit")
        page.mouse.click(*_center(page.locator("button, summary").filter(has_text=control).first))
    expect(page.locator(outcome)).to_have_count(1)


@pytest.mark.parametrize("control", ["Forecast the accuracy", "Assumptions"])
def test_no_control_moves_after_it_is_shown(page: Page, dataset: str, control: str) -> None:
    """Otherwise a click during the load of the page would miss its control."""
    with delayed(page, "**/htmx.min.js"):
        page.goto(_form(dataset, "model"), wait_until="commit")
        button = page.locator("button, summary").filter(has_text=control).first
        place = _center(button)
    page.wait_for_load_state("networkidle")
    assert _center(button) == place


def test_a_price_that_arrives_while_a_button_is_aimed_at_does_not_move_it(page: Page, dataset: str) -> None:
    page.clock.install()
    page.goto(_form(dataset, "model"))
    forecast = page.get_by_role("button", name="Forecast the accuracy")
    with delayed(page, "**/quote?kind=model"):
        with page.expect_request("**/quote?kind=model"):
            page.get_by_label("Target").select_option("income")
        page.clock.pause_at(page.evaluate("Date.now()") + SOON_MILLISECONDS)
        page.mouse.move(*_center(forecast))
        place = _center(forecast)
    with page.expect_response("**/quote?kind=model"):
        pass
    page.wait_for_timeout(ANSWER_MILLISECONDS)
    assert _center(forecast) == place
    page.clock.run_for(ANSWER_MILLISECONDS)
    expect(page.locator("#quote")).to_contain_text("of the budget")


def test_a_receipt_that_is_dropped_before_a_script_has_arrived_is_read(page: Page) -> None:
    with delayed(page, "**/check.js"):
        page.goto("/pages/receipts", wait_until="commit")
        file = "() => { const t = new DataTransfer(); t.items.add(new File(['{}'], 'receipt.json')); return t; }"
        drop = {"dataTransfer": page.evaluate_handle(file)}
        page.locator("form[data-keys]").dispatch_event("drop", drop)
    expect(page.locator("form[data-keys] output")).to_contain_text("none of these files is a receipt")


@pytest.mark.parametrize("late", ["typed", "htmx.min"])
def test_steps_clicked_before_a_script_is_loaded_are_all_executed(page: Page, dataset: str, late: str) -> None:
    with delayed(page, f"**/{late}.js"):
        page.goto(_form(dataset, "tuning"), wait_until="commit")
        add = page.get_by_role("button", name="Add a candidate")
        add.click()
        expect(add).to_have_attribute("aria-busy", "true")
        add.click()
        page.get_by_role("button", name="Remove candidate 1").click()
    expect(page.get_by_role("group", name="Candidate 3")).to_be_visible()
    expect(page.get_by_role("group", name="Candidate 4")).to_have_count(0)
    expect(add).not_to_have_attribute("aria-busy", "true")


def test_a_forecast_requested_before_a_script_is_loaded_is_computed_once(page: Page, dataset: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    with delayed(page, "**/htmx.min.js"):
        page.goto(_form(dataset, "model"), wait_until="commit")
        page.get_by_label("Target").select_option("income")
        for _ in range(2):
            page.get_by_role("button", name="Forecast the accuracy").click()
    expect(page.get_by_role("region", name="Expected accuracy")).to_be_visible()
    assert sum("/forecast" in url for url in requests) == 1


def test_a_declaration_that_is_pasted_before_a_script_has_arrived_is_read(page: Page) -> None:
    with delayed(page, "**/htmx.min.js"):
        page.goto("/pages/upload", wait_until="commit")
        page.locator("summary", has_text="Declaration as JSON").click()
        page.get_by_label("Declaration, as JSON").fill("[]")
        page.get_by_role("button", name="Show it in the editor").click()
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_file_sent_before_a_script_is_loaded_is_sent_with_its_columns(visitor: Visitor) -> None:
    page = visitor.page
    file = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"sex,income\nf,2\n"}
    with delayed(page, "**/send.js"):
        page.goto("/pages/upload", wait_until="commit")
        page.get_by_label("File (CSV").set_input_files(file)  # type: ignore[arg-type]
        page.get_by_label("Epsilon").fill("a lot")
        page.get_by_role("button", name="Upload and register").click()
    with page.expect_request("**/pages/upload") as request:
        expect(page.get_by_role("alert")).to_contain_text("epsilon: must be a number, such as 0.5")
    assert '"income"' in (request.value.post_data_buffer or b"").decode()
    visitor.complaints.clear()  # the browser's own, of the 422


def test_the_range_that_is_moved_before_its_script_has_arrived_sets_epsilon(page: Page, dataset: str) -> None:
    with delayed(page, "**/slider.js"):
        page.goto(_form(dataset, "model"), wait_until="commit")
        page.get_by_role("slider").press("End")
    expect(page.locator("[name='privacy.epsilon']")).not_to_have_value("0.5")
    page.reload()
    expect(page.locator("[name='privacy.epsilon']")).to_have_value("0.5")


def test_three_simultaneous_steps_are_all_executed_and_priced(page: Page, dataset: str) -> None:
    page.goto(_form(dataset, "tuning"))
    page.get_by_label("Target").select_option("income")
    expect(page.locator("#quote")).to_contain_text("2 candidates")
    with delayed(page, "**/fields?kind=tuning"):
        for _ in range(3):
            page.get_by_role("button", name="Add a candidate").click()
    expect(page.get_by_role("group", name="Candidate 5")).to_be_visible()
    expect(page.locator("#quote")).to_contain_text("5 candidates")


def test_a_price_that_arrives_while_a_button_is_pressed_does_not_move_it(page: Page, dataset: str) -> None:
    """The price is above this button, so showing it at once would move the button away from the pointer."""
    forecast = page.get_by_role("button", name="Forecast the accuracy")
    with delayed(page, "**/quote?kind=model"):
        page.goto(_form(dataset, "model"))
        page.get_by_label("Target").select_option("income")
        _press(page, forecast)
        place = forecast.bounding_box()
    page.wait_for_timeout(ANSWER_MILLISECONDS)
    assert forecast.bounding_box() == place
    with page.expect_request("**/forecast"):
        page.mouse.up()
    expect(page.locator("#quote")).to_contain_text("of the budget")


def test_a_former_price_is_dimmed_while_the_next_one_is_calculated(page: Page, dataset: str) -> None:
    page.goto(_form(dataset, "model"))
    page.get_by_label("Target").select_option("income")
    price = page.locator("#quote")
    expect(price).to_contain_text("of the budget")
    expect(price).to_have_css("opacity", "1")
    with delayed(page, "**/quote?kind=model"):
        page.locator("[name='privacy.epsilon']").fill("0.3")
        for stale in (price, page.locator("#charge")):
            expect(stale).to_have_css("opacity", "0.5")
        heading = page.get_by_role("heading", name="Price, updating")
        expect(heading).to_be_visible()
    expect(price).to_have_css("opacity", "1")
    expect(heading).to_have_count(0)


def test_fields_that_arrive_while_a_button_is_pressed_do_not_move_it(page: Page, dataset: str) -> None:
    add = page.get_by_role("button", name="Add a candidate")
    page.goto(_form(dataset, "tuning"))
    with delayed(page, "**/fields?kind=tuning"):
        page.get_by_role("group", name="Candidate 2").get_by_label("Method").select_option("dp_gd")
        _press(page, add)
        place = add.bounding_box()
    page.wait_for_timeout(ANSWER_MILLISECONDS)
    assert add.bounding_box() == place
    page.mouse.up()
    expect(page.get_by_role("group", name="Candidate 3")).to_be_visible()
    expect(page.get_by_role("group", name="Candidate 2").get_by_label("Steps")).to_be_visible()


def test_a_running_job_is_cancelled_by_a_slow_click(page: Page, server: Live, dataset: str) -> None:
    """The page reads the job's state every second, and keeps the button and the focus on it."""
    server.engine.gate.clear()
    try:
        with Client(server.url, server.token) as client:
            job = client.jobs.submit(dataset=dataset, target="income", privacy={"epsilon": 0.01})
        page.goto(f"/pages/jobs/{job.id}")
        cancel = page.get_by_role("button", name="Cancel the job")
        cancel.focus()
        _press(page, cancel)
        with page.expect_response(re.compile("/part$")):
            pass
        page.wait_for_timeout(ANSWER_MILLISECONDS)
        page.mouse.up()
        with page.expect_response(re.compile("/part$")):
            pass
        page.wait_for_timeout(ANSWER_MILLISECONDS)
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        expect(page.get_by_role("status")).to_contain_text("Cancelled")
    finally:
        server.engine.gate.set()


def test_a_running_job_is_followed_to_its_end_and_keeps_the_focus(page: Page, server: Live, dataset: str) -> None:
    server.engine.gate.clear()
    try:
        with Client(server.url, server.token) as client:
            job = client.jobs.submit(dataset=dataset, target="income", privacy={"epsilon": 0.01})
        page.goto(f"/pages/jobs/{job.id}")
        page.get_by_role("button", name="Cancel the job").focus()
        for _ in range(2):
            with page.expect_response(re.compile("/part$")):
                pass
        page.wait_for_timeout(ANSWER_MILLISECONDS)
        expect(page.get_by_role("button", name="Cancel the job")).to_be_focused()
    finally:
        server.engine.gate.set()
    expect(page.get_by_role("status")).to_contain_text("Completed")


def test_an_answer_does_not_repeat_a_style_that_the_policy_forbids(visitor: Visitor) -> None:
    """A text area that was resized has an inline style. htmx copied it to the element that replaced the text area."""
    page = visitor.page
    page.goto("/pages/upload")
    declared = page.get_by_label("Declaration, as JSON")
    declared.evaluate("area => { area.style.height = '20rem'; }")
    page.get_by_role("button", name="Add a column").click()
    expect(declared).to_have_value(re.compile(r'"type": "number"\s*}.*"type": "number"', re.DOTALL))
    assert visitor.complaints == []
