"""People in a real browser read pages, declare a file, give access and request jobs."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from app.identity.sign_on import SignOn
from purse import Client
from tests.support.browser import Visitor, delayed
from tests.support.live import Live
from tests.support.patience import PATIENCE
from tests.support.provider import provider
from tests.support.service import SPEC, people

PASTED = SPEC | {"name": "pasted"}
ROWS = "patient;age;sex\n" + "\n".join(f"p{i // 2};{20 + i % 60},5;{'fm'[i % 2]}" for i in range(200)) + "\n"


def test_a_person_signs_in_looks_around_and_signs_out(visitor: Visitor, server: Live, dataset: str) -> None:
    page = visitor.page
    page.context.clear_cookies()
    visitor.sign_in(server.token)
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


def test_a_person_signs_in_and_out_at_the_provider_and_returns(browser: Browser, server: Live) -> None:
    """The provider is another site: a lax cookie continues the attempt, and the strict one starts on our page."""
    services_before = server.app.state.services
    with provider() as idp:
        idp.now = time.time()
        redirect = {"oidc_redirect": f"{server.url}/pages/sign-in/return"}
        chosen = services_before.settings.model_copy(update=idp.settings(**redirect))
        server.app.state.services = replace(
            services_before, settings=chosen, sign_on=SignOn(chosen, services_before.database.clock)
        )
        try:
            headers = {"Authorization": f"Bearer {idp.token()}"}  # loads the provider's addresses
            assert httpx.get(f"{server.url}/v1/datasets", headers=headers, timeout=PATIENCE).status_code == 200
            with Visitor.arrived(browser, server.url, None) as visitor:
                page = visitor.page
                page.goto("/pages/sign-in")
                visitor.check()
                page.get_by_role("link", name="Sign in at 127.0.0.1").press("Enter")
                expect(page.get_by_role("heading", level=1)).to_have_text("Datasets")
                expect(page.get_by_text("ada, analyst")).to_be_visible()
                [there] = visitor.elsewhere
                assert there.startswith(f"http://localhost:{urlsplit(idp.issuer).port}/realm/authorize?")
                visitor.elsewhere.clear()
                [cookie] = page.context.cookies()
                assert (cookie["name"], cookie["sameSite"], cookie["httpOnly"]) == ("purse_session", "Strict", True)
                page.get_by_role("button", name="Sign out").click()
                expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
                assert idp.last_sign_out == {
                    "client_id": "purse",
                    "post_logout_redirect_uri": f"{server.url}/pages/sign-in",
                }
                assert (page.context.cookies(), len(visitor.elsewhere)) == ([], 1)
                visitor.elsewhere.clear()
        finally:
            server.app.state.services = services_before


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
    page.get_by_role("button", name="Set the allotment").click()
    expect(page.get_by_role("region", name="Allotments so far")).to_contain_text("25 %")
    visitor.check()
    page.locator("#allotted").fill("nobody")
    page.locator("#share").fill("0.25")
    page.get_by_role("button", name="Set the allotment").click()
    expect(page.get_by_role("alert")).to_contain_text("does not exist")
    assert len(visitor.complaints) == 1  # the browser's own, of the 404
    visitor.complaints.clear()
    with Visitor.arrived(page.context.browser, server.url, token) as analyst:  # type: ignore[arg-type]
        analyst.page.get_by_role("link", name="people").click()
        expect(analyst.page.get_by_role("link", name="Grants")).to_have_count(0)
        expect(analyst.page.get_by_text("A steward limits you to 25 % of the budget")).to_be_visible()
        analyst.page.get_by_role("link", name="New model").click()
        analyst.page.get_by_label("Target").select_option("income")
        analyst.page.get_by_label("Epsilon", exact=False).first.fill("2")
        expect(analyst.page.locator("#quote")).to_contain_text("This exceeds the budget")
        analyst.page.get_by_role("button", name="Charge and run").click()
        refusal = analyst.page.get_by_role("alert")
        expect(refusal).to_contain_text("The remaining budget does not allow this. Nothing was charged.")
        expect(refusal).to_contain_text("The most that fits is epsilon")
        analyst.complaints.clear()  # the browser's own, of the 409
    visitor.confirm("Remove the allotment of ada <b>")
    expect(page.get_by_role("region", name="Allotments so far")).to_have_count(0)
    visitor.confirm("Revoke the grant of ada <b>")
    expect(page.get_by_role("region", name="Grants so far")).to_have_count(0)


def test_a_long_name_does_not_cover_the_next_button(visitor: Visitor, server: Live, dataset: str) -> None:
    """A name has up to 200 characters, possibly without a space."""
    page = visitor.page
    with Client(server.url, server.token) as client:
        client.tokens.create("x" * 200, "analyst")
        client.datasets.grant(dataset, "x" * 200)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/pages/datasets/{dataset}/people")
    region = page.get_by_role("region", name="Grants so far")
    expect(region).to_contain_text("x" * 200)
    assert region.evaluate("found => found.scrollWidth") < 2 * 390
    visitor.confirm(f"Revoke the grant of {'x' * 200}")
    expect(region).to_have_count(0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hospital.csv"
    path.write_bytes(ROWS.encode("latin-1"))
    return path


def _fill(page: Page, **said: str) -> None:
    for name, value in said.items():
        page.locator(f"[name='{name.replace('__', '.')}']").fill(value)


def test_a_file_is_declared_refused_corrected_and_registered(visitor: Visitor, file: Path) -> None:
    page = visitor.page
    page.goto("/pages")
    page.get_by_role("link", name="Upload", exact=True).click()
    _fill(page, name="hospital", budget__epsilon="2", budget__delta="1e-6")
    _fill(page, unit__max_rows="2")
    page.get_by_label("File (CSV").set_input_files(file)
    expect(page.get_by_role("group", name="Column 3: sex")).to_be_visible()
    page.get_by_role("button", name="Use patient as the person column").click()
    expect(page.get_by_label("Person column")).to_have_value("patient")
    expect(page.get_by_role("note")).to_have_count(0)
    expect(page.locator("#guesses")).to_contain_text("semicolons")
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"decimal": ","'))
    page.locator("summary", has_text="File format").click()
    page.get_by_label("Decimal").select_option(".")
    age, sex = (page.get_by_role("group", name=re.compile(name)) for name in ("Column 1: age", "Column 2: sex"))
    age.get_by_label("Lower").fill("0")
    age.get_by_label("Upper").fill("100")
    sex.get_by_label("Type").select_option("category")
    sex.get_by_label("Categories").fill("f\nm")
    sex.get_by_label("Categories").blur()
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"categories": '))
    page.get_by_role("button", name="Upload and register").click()
    report = page.get_by_role("region", name="How the values were read")
    expect(report).to_contain_text("20,5")
    expect(page.get_by_role("alert")).to_contain_text("cannot be parsed")
    report.scroll_into_view_if_needed()
    visitor.shoot("upload")
    assert all("422" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()
    page.get_by_label("Decimal").select_option(",")
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"decimal": ","'))
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_role("status").filter(has_text="Registered:")).to_contain_text("100 persons.")
    expect(report).to_contain_text("200")
    visitor.check()
    with Client(visitor.url, page.context.cookies()[0]["value"]) as client:
        [dataset] = [each for each in client.datasets.list() if each.name == "hospital"]
    assert (dataset.persons, dataset.unit.max_rows, [column.name for column in dataset.columns]) == (
        100,
        2,
        ["age", "sex"],
    )


def test_the_format_and_the_types_are_guessed_and_a_correction_is_kept(visitor: Visitor, tmp_path: Path) -> None:
    """The header is read again if the format is corrected; a column with a bound stays."""
    page = visitor.page
    page.goto("/pages/upload")
    lines = ("Alter;Größe;Geschlecht;Tag;Kosten", "71;1,7;w;31.1.2025;NA", "9;1;m;NA;1.200,50")
    (tmp_path / "klinik.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
    page.get_by_label("File (CSV").set_input_files(tmp_path / "klinik.csv")
    legends = page.locator("#columns legend")
    names = ["Alter", "Größe", "Geschlecht", "Tag", "Kosten"]
    expect(legends).to_have_text([f"Column {index}: {name}" for index, name in enumerate(names, 1)])
    expect(page.locator("#guesses")).to_contain_text("thousands separator “.”, dates as %d.%m.%Y")
    declared = json.loads(page.get_by_label("Declaration, as JSON").input_value())
    assert declared["dialect"] == {
        "delimiter": ";",
        "encoding": "latin-1",
        "decimal": ",",
        "thousands": ".",
        "nulls": ["NA"],
        "date_format": "%d.%m.%Y",
    }
    types = [column["type"] for column in declared["columns"]]
    assert types == ["number", "number", "category", "number", "number"]
    assert declared["columns"][3]["date"] == "days"
    page.get_by_role("group", name="Column 1").get_by_label("Lower").fill("18")
    page.locator("summary", has_text="File format").click()
    page.get_by_label("Delimiter").fill("|")
    page.get_by_label("Delimiter").blur()
    expect(legends).to_have_text(["Column 1: Alter", "Column 2: Alter;Größe;Geschlecht;Tag;Kosten"])
    page.get_by_label("Delimiter").fill("\\t")
    tabs = {"name": "tabs.tsv", "mimeType": "text/plain", "buffer": b"ward\tstay\nA\t3\n"}
    page.get_by_label("File (CSV").set_input_files(tabs)  # type: ignore[arg-type]
    expect(legends).to_have_text(["Column 1: Alter", "Column 2: ward", "Column 3: stay"])
    assert page.get_by_role("group", name="Column 1").get_by_label("Lower").input_value() == "18"


def test_every_wrong_field_has_its_reason_beside_it(visitor: Visitor, tmp_path: Path) -> None:
    """Also after a column was removed: the reason is beside the field of the column that is named."""
    page = visitor.page
    page.goto("/pages/upload")
    (tmp_path / "ages.csv").write_bytes(people(43))
    page.get_by_label("File (CSV").set_input_files(tmp_path / "ages.csv")
    page.get_by_role("button", name="Remove column 2").click()
    expect(page.get_by_role("group", name="Column 2: income")).to_be_visible()
    page.get_by_role("group", name="Column 1: age").get_by_label("Lower").fill("low")
    page.get_by_label("Epsilon").fill("a lot")
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_role("alert")).to_contain_text("Column age: lower")
    expect(page.locator("#columns-0-lower-error")).to_be_visible()
    expect(page.locator("#columns-2-categories-error")).to_be_visible()
    expect(page.locator("#budget-epsilon-error")).to_have_text("must be a number, such as 0.5")
    visitor.complaints.clear()  # the browser's own, of the 422
    visitor.check()
    page.get_by_label("Epsilon").fill("2")
    page.get_by_label("Delta").focus()
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"epsilon": 2'))
    expect(page.locator("#columns-0-lower-error")).to_be_visible()
    expect(page.locator("#budget-epsilon-error")).to_have_count(0)


def test_an_ambiguous_bound_has_its_reason_beside_it(visitor: Visitor) -> None:
    """With "." for thousands, 100.000 is not the number that the form's own notation means by it."""
    page = visitor.page
    page.goto("/pages/upload")
    file = {"name": "costs.csv", "mimeType": "text/csv", "buffer": b"stay;cost\n2;1,5\n"}
    page.get_by_label("File (CSV").set_input_files(file)  # type: ignore[arg-type]
    cost = page.get_by_role("group", name="Column 2: cost")
    expect(cost).to_be_visible()
    page.locator("summary", has_text="File format").click()
    page.locator("[name='dialect.thousands']").select_option(".")
    for name, value in {"name": "costs", "budget.epsilon": "1", "budget.delta": "1e-6"}.items():
        page.locator(f"[name='{name}']").fill(value)
    for group, upper in ((page.get_by_role("group", name="Column 1: stay"), "30"), (cost, "100.000")):
        group.get_by_label("Lower").fill("0")
        group.get_by_label("Upper").fill(upper)
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_role("alert")).to_contain_text("Column cost")
    expect(page.locator("#columns-1-upper-error")).to_be_visible()
    expect(page.locator("#columns-0-upper-error")).to_have_count(0)
    visitor.complaints.clear()  # the browser's own, of the 422


def test_a_click_during_the_update_of_a_field_is_not_lost(visitor: Visitor, tmp_path: Path) -> None:
    """Leaving the last field updates the declaration. The click waits for it, and sends the typed value."""
    page = visitor.page
    page.goto("/pages/upload")
    (tmp_path / "ages.csv").write_bytes(people(40))
    page.get_by_label("File (CSV").set_input_files(tmp_path / "ages.csv")
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile("income"))
    page.get_by_label("Epsilon").fill("a lot")
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_role("alert")).to_contain_text("epsilon: must be a number, such as 0.5")
    visitor.complaints.clear()  # the browser's own, of the 422


@pytest.mark.parametrize("late", ["header", "typed", "send", "htmx.min"])
def test_values_typed_before_a_script_is_loaded_are_used(visitor: Visitor, late: str, file: Path) -> None:
    """A page can be filled in before its scripts are loaded. No script may miss an earlier event."""
    page = visitor.page
    with delayed(page, "**/upload/spec"):
        with delayed(page, f"**/{late}.js"):
            page.goto("/pages/upload", wait_until="commit")
            _fill(page, name="early", budget__epsilon="a lot")
            page.locator("[name='budget.epsilon']").blur()
            page.get_by_label("File (CSV").set_input_files(file)
            page.wait_for_timeout(200)  # milliseconds, in which a script that is there already would begin
        page.wait_for_load_state("load")
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile("a lot.*sex", re.DOTALL))
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_role("alert")).to_contain_text("epsilon: must be a number, such as 0.5")
    visitor.complaints.clear()  # the browser's own, of the 422


def test_nothing_is_sent_while_the_declaration_differs_from_the_fields(visitor: Visitor, tmp_path: Path) -> None:
    """If a change of a field was lost, the previous declaration is not sent."""
    page, paths = visitor.page, list[str]()
    page.goto("/pages/upload")
    (tmp_path / "ages.csv").write_bytes(people(41))
    page.get_by_label("File (CSV").set_input_files(tmp_path / "ages.csv")
    declared = page.get_by_label("Declaration, as JSON")
    expect(declared).to_have_value(re.compile("income"))
    page.on("request", lambda request: paths.append(urlsplit(request.url).path))
    page.route("**/upload/spec", lambda route: route.abort())
    for _ in range(2):
        page.get_by_label("Epsilon").fill("a lot")
        page.get_by_role("button", name="Upload and register").click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
        page.locator("#answer").evaluate("answer => answer.replaceChildren()")
    assert set(paths) == {"/pages/upload/spec"}
    page.unroute("**/upload/spec")
    visitor.complaints.clear()  # htmx's own, of the requests that were lost
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_role("alert")).to_contain_text("epsilon: must be a number, such as 0.5")
    expect(declared).to_have_value(re.compile("a lot"))
    visitor.complaints.clear()  # the browser's own, of the 422


def test_a_declaration_written_by_hand_is_sent(visitor: Visitor, tmp_path: Path) -> None:
    """It is sent even if a change of a field was lost, or the editor did not answer."""
    page = visitor.page
    page.goto("/pages/upload")
    (tmp_path / "ages.csv").write_bytes(people(42))
    page.get_by_label("File (CSV").set_input_files(tmp_path / "ages.csv")
    declared = page.get_by_label("Declaration, as JSON")
    expect(declared).to_have_value(re.compile("income"))
    page.route("**/upload/spec", lambda route: route.abort())
    page.route("**/upload/editor", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        page.get_by_label("Epsilon").fill("1")
        page.get_by_label("Epsilon").blur()
    page.locator("summary", has_text="Declaration as JSON").click()
    declared.fill('{"name": "mine"}')
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Show it in the editor").click()
    page.unroute("**/upload/spec")
    with page.expect_request("**/pages/upload") as request:
        page.get_by_role("button", name="Upload and register").click()
    assert '{"name": "mine"}' in (request.value.post_data_buffer or b"").decode()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(declared).to_have_value('{"name": "mine"}')
    visitor.complaints.clear()  # htmx's own, of the requests that were lost, and the browser's, of the 422


def test_a_declaration_may_be_pasted(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    page.goto("/pages/upload")
    declared = page.get_by_label("Declaration, as JSON")
    page.locator("summary", has_text="Declaration as JSON").click()
    declared.fill(json.dumps(PASTED | {"max_unparsed": {"age": 0.5}}))
    page.get_by_role("button", name="Show it in the editor").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot show all of this declaration")
    declared.fill(json.dumps(PASTED))
    page.get_by_role("button", name="Show it in the editor").click()
    expect(page.get_by_role("group", name="Column 3: income")).to_be_visible()
    assert json.loads(declared.input_value()) == PASTED
    (tmp_path / "people.csv").write_bytes(people(240))
    page.get_by_label("File (CSV").set_input_files(tmp_path / "people.csv")
    expect(page.get_by_role("group", name="Column 3: income")).to_be_visible()
    page.get_by_role("button", name="Upload and register").click()
    page.get_by_role("link", name="pasted").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("pasted")


def _share(page: Page) -> float:
    share = page.locator("#quote dd").first
    expect(share).to_contain_text("of the budget")
    return float(share.inner_text().split(" ")[0])


def test_moving_epsilon_shows_its_price_before_anything_is_spent(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}")
    page.get_by_role("link", name="New model").click()
    expect(page.locator("#quote")).to_contain_text("fill in: Target")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_label("Target").select_option("income")
    share_before = _share(page)
    expect(page.locator("#charge")).to_contain_text("of the budget")
    assumptions = page.locator("summary", has_text="Assumptions")
    assumptions.click()
    page.get_by_label("Assumed quality").fill("0.8")
    page.get_by_label("Runs").fill("3")
    page.get_by_label("Wanted score").fill("0.55")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Expected accuracy").get_by_role("row")).to_have_count(7)
    expect(page.get_by_role("note")).to_have_text(re.compile(r"Accuracy 0\.55 needs about epsilon \d"))
    expect(page.locator("#forecast")).to_contain_text("of strength 0.8 was assumed")
    expect(page.get_by_role("img", name="Expected accuracy against epsilon").locator("canvas")).to_be_visible()
    assumptions.click()
    page.get_by_role("heading", name="Price").evaluate("heading => heading.scrollIntoView()")
    visitor.shoot("job")
    expect(page.locator("#positive option")).to_have_text(["high, the second category", "low", "high"])
    epsilon = page.get_by_label("Epsilon", exact=False).first
    page.get_by_role("slider").press("ArrowRight")
    assert float(epsilon.input_value()) > 0.5
    with page.expect_response(re.compile("/quote")):
        page.get_by_role("slider").press("ArrowRight")
    expect(page.locator("#quote dd").first).not_to_contain_text(f"{share_before:.3g} %")
    assert _share(page) > share_before
    page.locator("summary", has_text="Noise of each query").click()
    noise = page.get_by_role("region", name="Noise of each query").locator("td").nth(1)
    assert float(noise.inner_text().replace(",", "")) > 0
    page.get_by_label("Method").select_option("dp_gd")
    page.get_by_label("Steps").fill("7")
    expect(page.locator("#quote")).to_contain_text("dp_gd")
    page.get_by_label("Steps").fill("none")
    expect(page.locator("#quote")).to_contain_text("steps: must be a whole number, such as 10")
    expect(page.get_by_label("Steps")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#method-steps-error")).to_have_text("must be a whole number, such as 10")
    expect(page.locator("#quote.htmx-request")).to_have_count(0)  # which is dimmed
    visitor.check()
    page.locator("#method-name").select_option("")
    page.locator("summary", has_text="More options").click()
    visitor.check()
    with Client(visitor.url, page.context.cookies()[0]["value"]) as client:
        assert client.datasets.budget(dataset).share == 0


def test_a_job_is_submitted_by_keyboard_and_its_end_is_announced(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=model")
    expect(page.locator("#quote")).to_contain_text("fill in: Target")
    reached = _tab_to(page, "target")
    page.keyboard.type("income")  # a select takes the first that begins so
    expect(page.locator("#quote strong").first).to_contain_text("%")
    reached += _tab_to(page, "privacy.epsilon")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.7")
    assert {"positive", "method.name"} <= set(reached)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/pages/jobs/job_"))
    expect(page.get_by_role("status")).to_contain_text("Completed")
    expect(page.get_by_role("region", name="Coefficients")).to_contain_text("intercept")
    expect(page.get_by_text("epsilon 0.7 at delta")).to_be_visible()
    page.locator("summary", has_text="For one row").click()
    page.get_by_label("age", exact=True).fill("old")
    page.get_by_label("age", exact=True).press("Enter")
    expect(page.locator("#row-0-error")).to_be_visible()
    visitor.check()
    page.get_by_label("age", exact=True).fill("70")
    page.get_by_label("age", exact=True).press("Enter")
    expect(page.locator("#prediction")).to_contain_text("P(high)")
    with page.expect_download() as receipt:
        page.get_by_role("link", name="Save the receipt").click()
    assert receipt.value.suggested_filename.endswith(".receipt.json")


def test_a_statistic_is_shown_with_the_size_of_its_noise(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=statistic")
    page.get_by_label("Method").select_option("counts")
    columns = page.locator("summary", has_text="Columns")
    expect(columns).to_have_text("Columns: all")
    page.get_by_role("checkbox", name="sex").check()
    expect(columns).to_have_text("Columns: 1")
    expect(page.locator("#quote dd").first).to_contain_text("of the budget")
    page.get_by_role("button", name="Charge and run").click()
    expect(page.get_by_role("status")).to_contain_text("Completed")
    expect(page.get_by_role("row", name=re.compile("^m "))).to_be_visible()
    page.goto(f"/pages/datasets/{dataset}")
    expect(page.get_by_role("region", name="Shares by method")).to_contain_text("counts")
    expect(page.get_by_role("region", name="Shares by analyst")).to_contain_text("bootstrap")
    visitor.check()
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_role("region", name="Jobs")).to_contain_text("Counts of sex")
    visitor.check()


def test_the_value_of_a_condition_is_chosen_among_the_declared_categories(visitor: Visitor, dataset: str) -> None:
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}/new?kind=statistic")
    page.get_by_label("Method").select_option("table1")
    page.get_by_role("button", name="Add a condition").click()
    condition = page.get_by_role("group", name="Condition 1")
    condition.get_by_label("Column").select_option("income")
    value = condition.get_by_role("combobox", name="Value")
    expect(value).to_be_visible()
    condition.get_by_label("Comparison").select_option("is not")
    value.select_option("low")
    condition.get_by_label("Comparison").select_option("is one of")
    condition.get_by_label("high").check()
    condition.get_by_label("Column").select_option("age")
    expect(condition.get_by_text("A value from 0 to 100.")).to_be_visible()
    visitor.check()


def test_the_best_of_several_models_is_bought_at_one_price(visitor: Visitor, dataset: str) -> None:
    """The number of runs is shown before the charge and stated in the receipt, which the browser checks."""
    page = visitor.page
    page.goto(f"/pages/datasets/{dataset}")
    page.get_by_role("link", name="Best of several models").click()
    page.get_by_role("button", name="Add a candidate").click()
    expect(page.get_by_role("group", name="Candidate 3")).to_be_visible()
    page.get_by_role("button", name="Remove candidate 1").click()
    expect(page.get_by_role("group", name="Candidate 3")).to_have_count(0)
    second = page.get_by_role("group", name="Candidate 2")
    second.get_by_label("Method").select_option("dp_gd")
    second.get_by_label("Steps").fill("3")
    page.get_by_label("Target").select_option("income")
    expect(page.locator("#quote")).to_contain_text("4: 2 candidates, each tried 2 times (")
    expect(second.get_by_label("Steps")).to_have_value("3")
    expect(page.locator("#quote strong").first).to_contain_text("%")
    page.evaluate("scrollTo(0, 0)")
    visitor.shoot("tuning")
    visitor.check()
    page.get_by_role("button", name="Charge and run").click()
    expect(page.get_by_role("status")).to_contain_text("Completed")
    expect(page.get_by_role("region", name="The best of 4 runs")).to_contain_text("candidate ")
    page.get_by_role("link", name="Check the receipt").click()
    expect(page.get_by_role("row", name=re.compile("^runs valid"))).to_contain_text("none of the 4 runs")
    expect(page.locator("output")).to_contain_text("Some values are not computed here.")


def _tab_to(page: Page, name: str) -> list[str]:
    """Return the names of the controls between the focus and this one in the order of Tab."""
    passed: list[str] = []
    while len(passed) < 60:
        page.keyboard.press("Tab")
        passed.append(page.evaluate("document.activeElement.name || document.activeElement.tagName"))
        if passed[-1] == name:
            return passed
    raise AssertionError(f"{name} is not reached: {passed}")
