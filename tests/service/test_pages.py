"""The frame of the pages without a browser: the session, whose requests are taken, files, and what is inert."""

import hashlib
import html
import json
import logging
import re
from html import unescape
from typing import Any

import pytest
from httpx import Response

from accounting.records.chain import Head, from_lines
from accounting.records.offline import verify_ledger
from app.http.errors import ApiError
from app.http.routing import routes
from app.pages import audit, session
from app.pages.releases import is_number
from app.pages.routers import PAGES
from app.pages.sheet import Sheet
from app.pages.static_files import FOLDER, address, files, together
from app.pages.words import bounds, coded, day, duration, field_label, large, minute, number, rounded_down
from purse.tables import Span, written
from tests.service.conftest import MakeService
from tests.support.clocks import HeldClock
from tests.support.pages import visit
from tests.support.service import JOB, SPEC, STEWARD, Service, people

STYLE = f"/pages{address('pages.css')}"
PUBLIC = {
    "/",
    "/pages/sign-in",
    "/pages/sign-in/provider",
    "/pages/sign-in/return",
    "/pages/sign-out",
    "/pages/static/{digest}/{name}",
}
HOSTILE = ("<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "abc\u202etxt.exe", "{{ 7 * 7 }}")


def sign_in(service: Service, token: str, **options: Any) -> Response:
    return visit(service, None, "/pages/sign-in", "POST", data={"token": token}, **options)


def _every() -> list[tuple[str, str]]:
    return [(method, route.path) for route in routes(PAGES) for method in sorted(route.methods or ())]


def test_styles_hide_only_heads_of_tables_by_width() -> None:
    """The tests in a browser rely on it: on a phone they check the rules about colours, sizes and tables alone."""
    styles = "".join(path.read_text() for path in FOLDER.glob("*.css"))
    blocks = re.findall(r"@media([^{]*)\{((?:[^{}]*\{[^{}]*\})*)", styles)
    assert any("max-width" in query for query, _ in blocks)
    hiding = [rule for _, rules in blocks for rule in re.findall(r"([^{}]*)\{[^{}]*display: ?none", rules)]
    assert [rule.strip() for rule in hiding] == [".stack thead, .stack td[data-label]:empty"]


def test_a_holdout_set_is_listed_after_its_dataset(shared: Service) -> None:
    names = [f"of two parts {which}" for which in (1, 2)]
    for which, name in enumerate(names):
        assert shared.upload(SPEC | {"name": name, "holdout": 0.2}, people(300 + which)).status_code == 201
    page = visit(shared, STEWARD, "/pages").text
    listed = [each for each in re.findall(r"<bdi>([^<]*)</bdi></a></h2>", page) if each.startswith("of two parts")]
    assert listed == [each for name in names[::-1] for each in (name, f"{name} (holdout)")]


def test_a_browser_is_led_to_the_pages_and_a_program_is_not(shared: Service) -> None:
    led = visit(shared, None, "/")
    assert (led.status_code, led.headers["Location"]) == (303, "/pages")
    assert shared.client.get("/", headers={"Accept": "application/json"}).json()["code"] == "not_found"


@pytest.mark.parametrize(("method", "path"), _every())
def test_every_page_but_the_public_ones_requires_signing_in(shared: Service, method: str, path: str) -> None:
    """A header does not replace the cookie."""
    filled = re.sub(r"\{\w+\}", "x", path)
    for headers in ({}, {"Authorization": f"Bearer {STEWARD}"}):
        answer = visit(shared, None, filled, method, headers=headers)
        is_asked = answer.status_code == 303 and answer.headers["Location"] == "/pages/sign-in"
        assert is_asked == (path not in PUBLIC or path == "/pages/sign-out")


def test_a_valid_token_becomes_a_strict_http_only_cookie(shared: Service) -> None:
    answer = sign_in(shared, STEWARD)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/pages")
    cookie = answer.headers["Set-Cookie"]
    assert cookie == f"purse_session={STEWARD}; HttpOnly; Max-Age=28800; Path=/pages; SameSite=strict"
    assert visit(shared, STEWARD, "/pages").status_code == 200
    signed_out = visit(shared, STEWARD, "/pages/sign-out", "POST")
    assert 'purse_session=""; ' in signed_out.headers["Set-Cookie"]
    assert "Max-Age=0" in signed_out.headers["Set-Cookie"]


def test_the_cookie_is_limited_to_https_and_to_the_prefix(
    make_service: MakeService, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with make_service(tmp_path_factory.mktemp("prefixed"), root_path="/purse") as service:
        answer = sign_in(service, STEWARD)
        assert "; Path=/purse/pages; " in answer.headers["Set-Cookie"]
        assert answer.headers["Location"] == "/purse/pages"
        page = visit(service, STEWARD, "/purse/pages").text
        assert 'href="/purse/pages/static/' in page
        assert not re.search(r'(href|src|action|hx-\w+)="/(?!purse/)', page)
        service.client.base_url = "https://testserver"
        assert "; Secure" in sign_in(service, STEWARD).headers["Set-Cookie"]


def test_the_cookie_is_limited_to_https_behind_an_untrusted_proxy(shared: Service) -> None:
    """The browser states its own scheme."""
    assert "; Secure" in sign_in(shared, STEWARD, headers={"Origin": "https://purse.example"}).headers["Set-Cookie"]
    assert "; Secure" not in sign_in(shared, STEWARD, headers={"Origin": "http://testserver"}).headers["Set-Cookie"]


@pytest.mark.parametrize("token", ["", "a-guess", "a b", "\u00e9", "x" * 5000])
def test_an_invalid_token_is_refused_and_not_stored(shared: Service, token: str) -> None:
    answer = sign_in(shared, token)
    assert answer.status_code in (401, 413)
    assert 'role="alert"' in answer.text
    assert "Set-Cookie" not in answer.headers
    assert not token or token not in answer.text


@pytest.mark.parametrize("cookie", [f'a b; x="; purse_session={STEWARD}', f"purse_session={STEWARD};y=1"])
def test_other_cookies_do_not_disturb_it(shared: Service, cookie: str) -> None:
    assert visit(shared, None, "/pages", headers={"Cookie": cookie}).status_code == 200


def test_a_link_of_another_site_does_not_sign_out(shared: Service) -> None:
    """The browser then sends no strict cookie, and the answer must not remove it."""
    led = visit(shared, None, "/pages", headers={"Sec-Fetch-Site": "cross-site"})
    assert (led.headers["Location"], led.headers.get("Set-Cookie")) == ("/pages/sign-in", None)
    assert 'href="/pages">Continue</a>' in visit(shared, None, "/pages/sign-in").text
    assert "Max-Age=0" in visit(shared, "of-nobody", "/pages").headers["Set-Cookie"]


@pytest.mark.parametrize("second_session", [STEWARD, "other", ""])
def test_two_session_cookies_are_refused(shared: Service, second_session: str) -> None:
    """A neighboring site may set a cookie for ours, which could sign the reader in as another person."""
    cookie = f"purse_session={STEWARD}; purse_session={second_session}"
    assert visit(shared, None, "/pages", headers={"Cookie": cookie}).status_code == 303


def test_a_session_ends_with_its_token(shared: Service) -> None:
    token = shared.token("brief")
    assert visit(shared, token["token"], "/pages").status_code == 200
    shared.call("steward", "DELETE", f"/v1/tokens/{token['id']}")
    expired = visit(shared, token["token"], "/pages")
    assert (expired.status_code, expired.headers["Location"]) == (303, "/pages/sign-in?expired=true")
    assert "has expired" in visit(shared, None, expired.headers["Location"]).text
    assert "has expired" not in visit(shared, None, "/pages/sign-in").text
    assert "Max-Age=0" in expired.headers["Set-Cookie"]
    part = visit(shared, token["token"], "/pages", headers={"HX-Request": "true"})
    assert part.headers["HX-Redirect"] == "/pages/sign-in?expired=true"


def test_an_unknown_address_is_a_page_for_browsers_and_json_for_programs(shared: Service) -> None:
    for path in ("/pages/job", "/pages/jobs/x/y", "/pages/sign-out", "/pages/" + "x" * 300):
        page = visit(shared, STEWARD, path)
        assert (page.status_code, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
        assert "No page" in page.text
        assert 'href="/pages/jobs"' in page.text
        answer = visit(shared, STEWARD, path, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert visit(shared, None, path).headers["Location"] == "/pages/sign-in"
    assert visit(shared, STEWARD, "/v1/nowhere").json()["code"] == "not_found"
    refused = visit(shared, STEWARD, "/pages/jobs", "DELETE")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


def test_the_cookie_is_nothing_to_the_interface(shared: Service) -> None:
    assert visit(shared, STEWARD, "/v1/datasets").status_code == 401


def test_no_token_is_in_a_page_or_in_a_log(shared: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        pages = [sign_in(shared, STEWARD), *(visit(shared, STEWARD, path) for path in ("/pages", "/pages/nowhere"))]
    assert all(STEWARD not in page.text + str(page.url) + page.headers.get("Location", "") for page in pages)
    assert caplog.records
    assert STEWARD not in caplog.text


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "", "Origin": "http://testserver"}, False),
        ({"Origin": "http://testserver"}, True),
        ({"Origin": "http://testserver.evil.example"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("path", ["/pages/sign-in", "/pages/sign-out", "/pages", "/pages/nowhere"])
def test_a_request_of_another_site_changes_nothing(
    shared: Service, path: str, headers: dict[str, str], is_taken: bool
) -> None:
    all_headers = {"Cookie": f"{session.COOKIE}={STEWARD}"} | headers
    for method in ("POST", "DELETE"):
        answer = shared.client.request(
            method, path, headers=all_headers, data={"token": STEWARD}, follow_redirects=False
        )
        assert (answer.status_code != 403) == is_taken
        assert is_taken or "Set-Cookie" not in answer.headers


def test_pages_restrict_the_origins_of_their_content(shared: Service) -> None:
    answers = [visit(shared, STEWARD, path) for path in ("/pages", "/pages/sign-in", "/pages/nowhere", STYLE)]
    for answer in answers:
        policy = answer.headers.get_list("Content-Security-Policy")
        assert policy == [
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ]
        assert answer.headers.get_list("Referrer-Policy") == ["same-origin"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"<script>|<style|\sstyle=|\son\w+=|javascript:", answer.text)


def test_files_named_by_their_content_are_cached_permanently(shared: Service) -> None:
    for name, content in files().items():
        answer = visit(shared, None, f"/pages{address(name)}")
        assert answer.content == content == (FOLDER / name).read_bytes()
        assert "immutable" in answer.headers["Cache-Control"]
    for path in ("0000000000000000/pages.css", f"{together()}/VENDORED.md", "x/..%2fapi.py"):
        assert visit(shared, STEWARD, f"/pages/static/{path}").status_code == 404


def test_vendored_files_equal_their_releases() -> None:
    page = (FOLDER / "VENDORED.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| \S+ \| ([\d.]+) \| \S+ \| `([0-9a-f]{64})` \|$", page, re.MULTILINE)
    assert len(rows) >= 3
    for name, version, digest in rows:
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
        assert (FOLDER / f"{name.split('.')[0]}.LICENSE.txt").is_file()
        assert version
    assert {name for name in files() if ".min." in name} == {name for name, _, _ in rows}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(shared: Service, name: str) -> None:
    """Names of datasets, columns, categories and persons appear as text, and never as markup."""
    title = name if name.isprintable() else name.replace("\u202e", "")
    columns = [SPEC["columns"][0], SPEC["columns"][1] | {"categories": ["f", "m", name]}, SPEC["columns"][2]]
    columns[0] = columns[0] | {"name": name, "source": "age"}
    dataset = shared.registered(SPEC | {"name": title, "columns": columns}, people(1000 + HOSTILE.index(name)))
    steward = shared.token(title, "steward")["token"]
    for path in ("/pages", f"/pages/datasets/{dataset['id']}"):
        page = visit(shared, steward, path).text
        assert "<script>alert" not in page
        assert "<img" not in page
        assert f"<bdi>{title}</bdi>" in unescape(page)
        assert "49" not in re.findall(r"<bdi>(.*?)</bdi>", page)


def test_an_analyst_without_datasets_sees_how_to_get_one(service: Service) -> None:
    assert '<a href="/pages/upload">Upload one</a>' in visit(service, STEWARD, "/pages").text
    assert "/pages/upload" not in visit(service, service.tokens["analyst"], "/pages").text


def _parts(spec: dict[str, Any], file: bytes) -> dict[str, Any]:
    return {"data": {"spec": json.dumps(spec)}, "files": {"file": ("people.csv", file)}}


def test_the_editor_keeps_a_bound_as_text_if_the_dialect_reads_another_number(shared: Service) -> None:
    fields = {"columns.0.name": "cost", "columns.0.lower": "0", "columns.0.upper": "100.000", "name": "bills"}
    for dialect, upper in (({"dialect.decimal": ",", "dialect.thousands": "."}, '"100.000"'), ({}, "100.0")):
        page = visit(shared, STEWARD, "/pages/upload/spec", "POST", data=fields | dialect)
        assert f'"upper": {upper}' in html.unescape(page.text)


_REPORT = "How the values were read"  # heading of the report


def test_an_upload_in_the_pages_is_that_of_the_api(shared: Service) -> None:
    """The API's rules apply to roles, parts and sizes, and the report is shown once."""
    form = _parts(SPEC | {"name": "on a page"}, people(901))
    response = visit(shared, STEWARD, "/pages/upload", "POST", **form)
    assert response.status_code == 201
    assert _REPORT in response.text
    again = visit(shared, STEWARD, "/pages/upload", "POST", **_parts(SPEC | {"name": "again"}, people(901)))
    assert again.status_code == 409
    with_unknown_part = visit(
        shared, STEWARD, "/pages/upload", "POST", **(form | {"data": {"spec": "{}", "more": "x"}})
    )
    assert with_unknown_part.status_code == 422
    for role in ("analyst", "auditor"):
        assert visit(shared, shared.tokens[role], "/pages/upload", "POST", **form).status_code == 403
        assert visit(shared, shared.tokens[role], "/pages/upload").status_code == 403
    datasets = shared.call("steward", "GET", "/v1/datasets").json()["items"]
    [dataset] = [each for each in datasets if each["name"] == "on a page"]
    pages = [visit(shared, STEWARD, path).text for path in ("/pages", f"/pages/datasets/{dataset['id']}")]
    assert not any(_REPORT in page for page in pages)


def test_how_long_an_upload_took_is_not_logged(shared: Service, caplog: pytest.LogCaptureFixture) -> None:
    """The duration may depend on the file, so it is not logged, as for the API."""
    with caplog.at_level(logging.INFO, logger="purse.access"):
        visit(shared, STEWARD, "/pages/upload", "POST", **_parts(SPEC | {"name": "untimed"}, people(902)))
        visit(shared, STEWARD, "/pages")
    messages = {record.getMessage() for record in caplog.records if "POST" in record.getMessage()}
    assert messages == {"POST /pages/upload 201", "POST /v1/datasets 201"}
    assert any(record.getMessage().endswith(" ms") for record in caplog.records)


@pytest.mark.slow
def test_values_that_no_header_can_hold_are_refused(shared: Service) -> None:
    dataset = shared.dataset()
    form = {"key": "\u00e9", "target": "income", "privacy.epsilon": "0.1"}
    assert visit(shared, STEWARD, f"/pages/datasets/{dataset}/jobs", "POST", data=form).status_code == 422
    odd = {"Content-Type": "multipart/form-data; boundary=\xe9".encode("latin-1")}
    assert visit(shared, STEWARD, "/pages/upload", "POST", content=b"x", headers=odd).status_code in (415, 422)


@pytest.mark.parametrize(
    "pasted",
    [
        "",
        "[]",
        "{",
        '{"a":' * 900 + "1" + "}" * 900,
        '{"columns": [' + '{"name": "x"},' * 400 + '{"name": "y"}]}',
        "NaN",
    ],
)
def test_a_declaration_that_the_editor_cannot_show_is_reported(shared: Service, pasted: str) -> None:
    answer = visit(shared, STEWARD, "/pages/upload/editor", "POST", data={"step": "paste", "spec": pasted})
    assert (answer.status_code, answer.headers["HX-Retarget"]) == (200, "#note")


@pytest.mark.parametrize(
    ("where", "label"),
    [
        ("spec.columns.0.number.lower", "Column 1, lower"),
        ("spec.columns.11", "Column 12"),
        ("body.candidates.1.method.dp_gd.steps", "Candidate 2, method, dp gd, steps"),
        ("body.privacy.epsilon", "Privacy, epsilon"),
        ("spec.unit.max_rows", "Rows used per person"),
        ("body.where.0.value", "Condition 1, value"),
        ("body.terms.1.factors.0.column", "Term 2, factor 1, column"),
        ("body", "The form"),
    ],
)
def test_a_wrong_field_has_the_name_of_its_form(where: str, label: str) -> None:
    assert field_label(where) == label


def test_a_number_keeps_the_digits_before_its_point() -> None:
    """A bound such as 102,127 is not shown as 1.021e+05, which other numbers share."""
    expected = {102127.0: "102,127", 12345.6: "12,346", 7847.02: "7,847", -8019.0: "-8,019", 0.123456: "0.1235", 0: "0"}
    assert {value: number(value) for value in expected} == expected
    assert (number(None), number(1e-6), number(1e-9), number(123456.0, 3)) == ("–", "0.000001", "1e-9", "123,456")
    assert (large(6.5e6), large(52.0), duration(0.1312), duration(600)) == (
        "6.5 million",
        "52",
        "about 0.13 s",
        "about 10 min",
    )


def test_code_in_a_hint_is_marked_and_everything_else_is_text() -> None:
    assert coded("`auto` chooses <b>") == "<code>auto</code> chooses &lt;b&gt;"


def test_the_remaining_budget_is_rounded_down() -> None:
    assert [rounded_down(value) for value in (1.5399, 0.5, 3.0, 0.3, 0.0, None)] == [
        "1.53",
        "0.5",
        "3",
        "0.3",
        "0",
        "–",
    ]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"lower": -8019.0, "upper": 102127.0}, "-8,019 to 102,127"),
        ({"lower": 0.0, "upper": 1234.5678}, "0 to 1,234.5678"),
        ({"lower": 18628.0, "upper": 20088.0, "date": "days"}, "2021-01-01 to 2024-12-31"),
        ({"lower": 0.0, "upper": 5400.0, "date": "seconds"}, "1970-01-01 to 1970-01-01 01:30:00"),
        ({"lower": 1.0, "upper": 12.0, "date": "month"}, "1 to 12"),
        ({"lower": -1e150, "upper": 1e150, "date": "days"}, "-1e+150 to 1e+150"),
    ],
)
def test_bounds_are_shown_as_declared(column: dict[str, Any], text: str) -> None:
    assert bounds(column) == text


def test_a_holdout_set_offers_only_evaluations(shared: Service) -> None:
    whole = shared.dataset(holdout=0.4)
    part = shared.call("steward", "GET", f"/v1/datasets/{whole}").json()["holdout"]
    page, of = (visit(shared, STEWARD, f"/pages/datasets/{each}").text for each in (part, whole))
    assert "New model" in of
    assert f'href="/pages/datasets/{part}">holdout set</a>' in of
    assert "New model" not in page
    assert f'href="/pages/jobs?dataset={whole}"' in page
    name = shared.call("steward", "GET", f"/v1/datasets/{whole}").json()["name"]
    assert f'href="/pages/datasets/{whole}"><bdi>{name}</bdi></a>' in page


def test_access_to_a_holdout_set_is_changed_on_the_page_of_its_dataset(shared: Service) -> None:
    """The API refuses grants of a holdout set, so its page offers none."""
    whole = shared.dataset(holdout=0.4)
    shared.call("steward", "PUT", f"/v1/datasets/{whole}/grants/the analyst")
    part = shared.call("steward", "GET", f"/v1/datasets/{whole}").json()["holdout"]
    page, of = (visit(shared, STEWARD, f"/pages/datasets/{each}/people").text for each in (part, whole))
    assert ("/grants" in page, "/grants/revoke" in of) == (False, True)
    assert ("<bdi>the analyst</bdi>" in page, f'href="/pages/datasets/{whole}/people"' in page) == (True, True)
    assert "/allotments" in page


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [("2026-11-24T14:05:09.123Z", "24 Nov 2026 14:05"), ("2026-02-03T00:00:00.123456789Z", "3 Feb 2026 00:00")],
)
def test_times_are_shown_to_the_minute_with_the_name_of_the_month(timestamp: str, text: str) -> None:
    assert (minute(timestamp), day(timestamp)) == (text, text[:-6])


@pytest.mark.parametrize(
    ("value", "text"),
    [(10_402_602.4, "10.4 million"), (-9_125_841.0, "-9.13 million"), (2645.2, "2,645"), (0.6304, "0.63")],
)
def test_large_numbers_are_shown_with_three_digits_and_a_word(value: float, text: str) -> None:
    assert large(value) == text
    assert is_number(text)


def test_the_editor_explains_each_field_of_a_column(shared: Service) -> None:
    page = visit(shared, STEWARD, "/pages/upload").text
    for field in ("lower", "categories", "origin", "source", "date"):
        assert f"<dt>{field.capitalize()}</dt><dd>" in page
    assert re.search("Targets: <[^>]*>none<", page)
    assert re.search(r'name="budget.epsilon"[^>]* required', page)
    assert not re.search(r'name="unit.column"[^>]* required', page), "a dataset may have no unit"


def test_bounds_of_dates_are_filled_in_as_dates(shared: Service) -> None:
    """Both the editor and a pasted declaration show dates. The dataset has the numbers of those days."""
    column = {"type": "number", "name": "seen", "lower": "2020-01-31", "upper": "2021-01-31", "date": "days"}
    form = {f"columns.0.{name}": value for name, value in column.items()}
    form |= {"name": "of dates", "budget.epsilon": "1", "budget.delta": "1e-6"}
    page = visit(shared, STEWARD, "/pages/upload/spec", "POST", data=form).text
    declared = json.loads(unescape(re.sub("<[^>]*>", "", page)))
    assert declared["columns"] == [column]
    pasted = visit(
        shared, STEWARD, "/pages/upload/editor", "POST", data={"step": "paste", "spec": json.dumps(declared)}
    )
    assert 'name="columns.0.lower" value="2020-01-31"' in pasted.text
    response = shared.upload(declared, b"seen\n2020-02-01\n2020-12-31\n")
    assert (response.status_code, response.json()["columns"][0]["lower"]) == (201, 18292)


def test_the_editor_is_bounded(shared: Service) -> None:
    columns = {f"columns.{i}.name": f"c{i}" for i in range(301)}
    assert visit(shared, STEWARD, "/pages/upload/spec", "POST", data=columns).status_code == 413


@pytest.mark.slow
def test_a_model_is_evaluated_on_the_holdout_set(shared: Service) -> None:
    dataset = shared.dataset(holdout=0.5)
    job = shared.done(JOB | {"dataset": dataset}, role="steward")["id"]
    [link] = re.findall(r'href="([^"]*kind=evaluation[^"]*)"', visit(shared, STEWARD, f"/pages/jobs/{job}").text)
    form = {"model": job, "privacy.epsilon": "1.5", "bins": "10"}
    form_page = visit(shared, STEWARD, unescape(link))
    assert f'value="{job}"' in form_page.text
    place = unescape(link).split("/new")[0]
    priced = visit(shared, STEWARD, f"{place}/quote?kind=evaluation", "POST", data=form)
    assert "of the budget" in priced.text
    response = visit(shared, STEWARD, f"{place}/jobs?kind=evaluation", "POST", data=form)
    assert response.status_code == 303, response.text
    shared.finished(response.headers["Location"].rpartition("/")[2])
    page = visit(shared, STEWARD, response.headers["Location"]).text
    assert "noise and sampling" in page
    assert f'href="/pages/jobs/{job}"' in page
    assert page.count("data-chart") == 2, "ROC and calibration"
    assert f'<a href="/pages/jobs/{job}"><bdi>Model of income</bdi></a>' in page
    model = visit(shared, STEWARD, f"/pages/jobs/{job}").text
    assert "noise and sampling" in model, "the model's page has the measures of its evaluation"
    assert f'href="{response.headers["Location"]}"' in model


def test_a_refused_form_keeps_the_analysts_name(shared: Service) -> None:
    place = f"/pages/datasets/{shared.dataset()}/people"
    for form, field in (("grants", "granted"), ("allotments", "allotted")):
        values = {"analyst": "bop"} | ({} if form == "grants" else {"share": "a quarter"})
        page = visit(shared, STEWARD, f"{place}/{form}", "POST", data=values).text
        assert page.count('value="bop"') == 1
        assert f'id="{field}" name="analyst" value="bop"' in page


def test_a_share_beyond_the_whole_is_refused_with_an_example(shared: Service) -> None:
    """Issue 29, friction 17: a percentage was refused in a library's words."""
    place = f"/pages/datasets/{shared.dataset()}/people/allotments"
    refused = visit(shared, STEWARD, place, "POST", data={"analyst": "the analyst", "share": "50"})
    assert refused.status_code == 422
    assert re.search(r'<li data-where="[a-z.]*share">.*\b0\.5\b', refused.text)


def test_a_page_of_an_unknown_dataset_leads_to_the_list(shared: Service) -> None:
    page = visit(shared, STEWARD, "/pages/datasets/ds_unknown")
    assert page.status_code == 404
    assert "<h1>Not found</h1>" in page.text
    assert 'role="alert"' in page.text
    assert "GET" not in page.text
    assert '<a href="/pages">Go to the datasets</a>' in page.text


def test_an_auditor_gets_links_to_receipts_only(shared: Service) -> None:
    job = shared.done(JOB | {"dataset": shared.dataset()})["id"]
    auditor = shared.tokens["auditor"]
    page = visit(shared, auditor, "/pages/jobs").text
    assert f'"/pages/jobs/{job}/receipt"' in page
    assert f'"/pages/jobs/{job}"' not in page
    assert visit(shared, auditor, f"/pages/jobs/{job}/receipt").status_code == 200
    shared_link = visit(shared, auditor, f"/pages/jobs/{job}")  # issue 29, friction 47
    assert (shared_link.status_code, shared_link.headers["Location"]) == (303, f"/pages/jobs/{job}/receipt")
    assert visit(shared, auditor, "/pages/upload").status_code == 403
    assert f'"/pages/jobs/{job}"' in visit(shared, STEWARD, "/pages/jobs").text


def test_a_frozen_dataset_offers_nothing_that_it_refuses(service: Service) -> None:
    dataset = service.dataset()
    place = f"/pages/datasets/{dataset}"
    assert "New model" in visit(service, STEWARD, place).text
    assert service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"frozen": True}).status_code == 200
    page = visit(service, STEWARD, place).text
    assert "One more job" not in page
    assert "New model" not in page
    assert "Grants and allotments" in page


def test_pages_of_a_dataset_link_back_to_it(shared: Service) -> None:
    dataset = shared.dataset()
    for path in (f"/pages/datasets/{dataset}/ledger", f"/pages/jobs?dataset={dataset}"):
        assert f'href="/pages/datasets/{dataset}"' in visit(shared, STEWARD, path).text
    assert "Only jobs on" not in visit(shared, STEWARD, "/pages/jobs").text


def test_the_ledger_names_its_dataset(shared: Service) -> None:
    dataset = shared.dataset()
    name = shared.read(f"datasets/{dataset}")["name"]
    page = visit(shared, shared.tokens["auditor"], f"/pages/datasets/{dataset}/ledger").text
    (row,) = re.findall(r'<tr data-sequence="1".*', page)
    assert f"<bdi>{name}</bdi>" in row
    assert f"<bdi>{dataset}</bdi>" not in row


def test_a_saved_ledger_is_verified_offline(shared: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent part by part: the length of the response is not known when it begins."""
    monkeypatch.setattr(audit, "ENTRIES_PER_REQUEST", 1)
    dataset = shared.dataset()
    assert shared.call("steward", "POST", "/v1/jobs", json=JOB | {"dataset": dataset}).status_code == 202
    place = f"/pages/datasets/{dataset}/ledger"
    assert f'href="{place}/file"' in visit(shared, shared.tokens["auditor"], place).text
    saved = visit(shared, shared.tokens["auditor"], f"{place}/file")
    assert saved.headers["Content-Disposition"] == f'attachment; filename="{dataset}.ledger.jsonl"'
    assert "Content-Length" not in saved.headers
    ledger = from_lines(saved.content)
    head = shared.call("auditor", "GET", f"/v1/datasets/{dataset}/ledger/head").json()
    assert verify_ledger(ledger, [Head(head["sequence"], head["hash"])]).charges == 1
    refused = visit(shared, shared.tokens["analyst"], f"{place}/file")
    assert (refused.status_code, "Content-Disposition" in refused.headers) == (403, False)


def test_the_protected_unit_is_shown(shared: Service) -> None:
    """The page states whether the budget protects a person or a row."""
    spec = SPEC | {"name": "of persons", "unit": {"column": "id", "max_rows": 3}}
    lines = people(1300).decode().splitlines()
    file = "\n".join([f"id,{lines[0]}", *(f"p{i // 2},{line}" for i, line in enumerate(lines[1:]))]).encode()
    page = visit(shared, STEWARD, f"/pages/datasets/{shared.registered(spec, file)['id']}").text
    assert "one person" in page
    assert "one row" in visit(shared, STEWARD, f"/pages/datasets/{shared.dataset()}").text


def test_parts_of_a_range_of_dates_are_shown_as_dates() -> None:
    assert written(Span(18628.0, 18774.0, "days")) == "2021-01-01 to 2021-05-27"
    assert (written(Span(0.5, 12345.6)), written(Span(1.0, 2.0, "month"))) == ("0.5 to 12346", "1 to 2")


@pytest.mark.parametrize("name", [".", "..", "../..", "x/../.."])
def test_a_name_never_becomes_a_step_in_a_path(shared: Service, name: str) -> None:
    """Otherwise revoking a grant could delete the dataset."""
    dataset = shared.upload(SPEC | {"name": f"steps {name}".replace("/", " ")}, people(1100 + len(name))).json()["id"]
    for form in ("grants", "grants/revoke", "allotments", "allotments/revoke"):
        values = {"analyst": name, "epsilon": "0.1"}
        answer = visit(shared, STEWARD, f"/pages/datasets/{dataset}/people/{form}", "POST", data=values)
        assert answer.status_code == 404, form
    assert shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["data"] == "stored"


def test_counts_of_several_columns_are_one_histogram_each_unless_a_cross_table_is_chosen(service: Service) -> None:
    dataset = service.dataset()
    place = f"/pages/datasets/{dataset}/jobs?kind=statistic"
    form = {"method.name": "counts", "columns:sex": "on", "columns:income": "on", "privacy.epsilon": "0.1", "key": "a"}
    response = visit(service, STEWARD, place, "POST", data=form)
    assert response.headers["Location"] == f"/pages/jobs?dataset={dataset}"
    assert len(service.call("steward", "GET", "/v1/jobs").json()["items"]) == 2
    assert visit(service, STEWARD, place, "POST", data=form).status_code == 303
    jobs = service.call("steward", "GET", "/v1/jobs").json()["items"]
    assert len(jobs) == 2, "the same form is the same jobs"
    cross_table = visit(
        service, STEWARD, place, "POST", data=form | {"counts_of_several_columns": "cross table", "key": "b"}
    )
    assert "/pages/jobs/job_" in cross_table.headers["Location"]
    table = service.finished(cross_table.headers["Location"].rpartition("/")[2])
    axes = service.call("steward", "GET", f"/v1/jobs/{table['id']}/statistic").json()["result"]["axes"]
    assert [axis["column"]["name"] for axis in axes] == ["sex", "income"]


def test_the_form_of_table1_has_the_groups_and_the_conditions(shared: Service) -> None:
    dataset = shared.dataset()
    part = f"/pages/datasets/{dataset}"
    assert 'name="by:' not in visit(shared, STEWARD, f"{part}/fields?kind=statistic", "POST", data={"key": "c"}).text
    form = {"method.name": "table1", "by:sex": "on", "columns:age": "on", "privacy.epsilon": "0.2", "key": "c"}
    form |= {"where.0.column": "age", "where.0.op": ">=", "where.0.value": "30"}
    fields = visit(shared, STEWARD, f"{part}/fields?kind=statistic", "POST", data=form).text
    are_fields = [f'name="{name}"' in fields for name in ("by:sex", "by:age", "where.0.value")]
    assert are_fields == [True, False, True]
    price = visit(shared, STEWARD, f"{part}/quote?kind=statistic", "POST", data=form).text
    assert "mean in groups" in price
    assert re.search(r"<details open>\s*<summary><span>Groups by", fields)
    response = visit(shared, STEWARD, f"{part}/jobs?kind=statistic", "POST", data=form)
    job = shared.finished(response.headers["Location"].rpartition("/")[2])
    result = shared.call("steward", "GET", f"/v1/jobs/{job['id']}/statistic").json()["result"]
    assert result["where"] == [{"column": "age", "op": ">=", "value": 30.0}]
    assert [column["name"] for column in result["by"]] == ["sex"]
    form |= {"where.0.column": "income", "where.0.op": "==", "key": "d"}
    fields = visit(shared, STEWARD, f"{part}/fields?kind=statistic", "POST", data=form).text
    [value] = re.findall(r'<select [^>]*name="where.0.value".*?</select>', fields, re.DOTALL)
    assert re.findall('<option value="([^"]+)"', value) == ["low", "high"]
    [comparison] = re.findall(r'<select [^>]*name="where.0.op".*?</select>', fields, re.DOTALL)
    assert re.findall(">(is.*)</option>", comparison) == ["is", "is not", "is one of"]
    form |= {"where.0.op": "in", "where.0.value:low": "on", "where.0.value:high": "on"}
    response = visit(shared, STEWARD, f"{part}/jobs?kind=statistic", "POST", data=form)
    job = shared.finished(response.headers["Location"].rpartition("/")[2])
    result = shared.call("steward", "GET", f"/v1/jobs/{job['id']}/statistic").json()["result"]
    assert result["where"] == [{"column": "income", "op": "in", "value": ["low", "high"]}]
    form |= {"where.0.op": "==", "where.0.value": "1"}  # a category that is written as a number is text
    rejected = visit(shared, STEWARD, f"{part}/quote?kind=statistic", "POST", data=form).text
    assert '<li data-where="body.where.0.value">' in rejected


def test_a_new_term_begins_with_a_factor_whose_column_is_chosen(shared: Service) -> None:
    place = f"/pages/datasets/{shared.dataset()}/fields?kind=model"
    fields = visit(shared, STEWARD, place, "POST", data={"step": "add:terms", "target": "income"}).text
    [factor] = re.findall(r'<select [^>]*name="terms.0.factors.0.column".*?</select>', fields, re.DOTALL)
    assert [f'<option value="{name}"' in factor for name in ("age", "sex", "nothing")] == [True, True, False]


@pytest.mark.parametrize(
    ("kind", "method", "field"),
    [("model", "", "Target"), ("statistic", "", "Method"), ("statistic", "table1", "Groups by")],
)
def test_a_form_shows_its_missing_fields_without_an_error(shared: Service, kind: str, method: str, field: str) -> None:
    place, form = f"/pages/datasets/{shared.dataset()}", {"privacy.epsilon": "0.5", "method.name": method}
    page = visit(shared, STEWARD, f"{place}/quote?kind={kind}", "POST", data=form).text
    assert f"<strong>{field}</strong>" in page
    assert 'role="alert"' not in page


@pytest.mark.parametrize("method", ["quantiles", "covariance"])
def test_a_statistic_of_numbers_has_all_numbers_by_default(shared: Service, method: str) -> None:
    place = f"/pages/datasets/{shared.dataset()}"
    form = {"privacy.epsilon": "0.5", "method.name": method}
    fields = visit(shared, STEWARD, f"{place}/fields?kind=statistic", "POST", data=form).text
    assert ['name="columns:age"' in fields, 'name="columns:sex"' in fields] == [True, False]
    assert "of the budget" in visit(shared, STEWARD, f"{place}/quote?kind=statistic", "POST", data=form).text


def test_a_form_has_the_fields_that_apply_to_its_result(shared: Service) -> None:
    place = f"/pages/datasets/{shared.dataset()}/fields?kind=model"
    empty, number, table = (
        set(re.findall(r'name="([a-z_.]+)"', visit(shared, STEWARD, place, "POST", data=form).text))
        for form in ({"target": ""}, {"target": "income"}, {"target": "income", "inference": "true"})
    )
    assert number - empty == {"positive"}
    assert {"family", "level"} == table - number
    assert {"method.name", "regularizer.name", "slope_limit"} <= number - table
    chosen = visit(shared, STEWARD, place, "POST", data={"target": "income", "method.name": "dp_gd"}).text
    assert "<code>docs/methods/dp_gd.md</code>" in chosen
    assert '<p data-hint id="method-step-hint">' in chosen
    assert any(name.startswith("loss") for name in number - table)


def test_a_list_names_jobs_by_what_they_compute(shared: Service) -> None:
    dataset = shared.dataset()
    for path, body in (("jobs", JOB), ("statistics", {"method": {"name": "means"}, "privacy": {"epsilon": 0.1}})):
        shared.call("steward", "POST", f"/v1/{path}", json=body | {"dataset": dataset})
    page = visit(shared, STEWARD, f"/pages/jobs?dataset={dataset}").text
    assert "Model of income" in page
    assert "Means of" in page


def test_defaults_of_a_form_are_words(shared: Service) -> None:
    form = f"/pages/datasets/{shared.dataset()}/new?kind="
    assert 'placeholder="0.000001, ' in visit(shared, STEWARD, f"{form}model").text
    tuning = visit(shared, STEWARD, f"{form}tuning").text
    assert tuning.count("private where possible") == 2, "each candidate has the defaults of a job"


def test_a_form_without_an_answer_is_sent_again_under_its_key(shared: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no answer came, a second click must not charge a second time."""

    async def lost(*_: Any) -> str:
        raise ApiError("database_unavailable")

    place = f"/pages/datasets/{shared.dataset()}/jobs?kind=statistic"
    with monkeypatch.context() as patched:
        patched.setattr(Sheet, "submit", lost)
        page = visit(shared, STEWARD, place, "POST", data={"key": "the-first-click"})
    assert (page.status_code, 'name="key" value="the-first-click"' in page.text) == (503, True)
    fixed = {"method.name": "means", "privacy.epsilon": "0.1", "key": "the-first-click"}
    jobs = {visit(shared, STEWARD, place, "POST", data=fixed).headers["Location"] for _ in range(2)}
    assert len(jobs) == 1
    changed = visit(shared, STEWARD, place, "POST", data=fixed | {"privacy.epsilon": "0.2"})
    assert (changed.status_code, 'value="the-first-click"' in changed.text) == (409, False)


@pytest.mark.slow
def test_pages_are_limited_as_their_visitor_is(make_service: MakeService, tmp_path: Any) -> None:
    """A cookie counts for its identity, the page's own questions too; guessing tokens counts for the address."""
    with make_service(tmp_path, clock=HeldClock(), caller_rate=1, stranger_rate=1) as service:
        statuses = [visit(service, STEWARD, "/pages").status_code for _ in range(12)]
        assert statuses[0] == 200
        assert statuses[-1] == 429
        assert [sign_in(service, f"guess {i}").status_code for i in range(12)][-1] == 429


def test_a_body_is_bounded(shared: Service) -> None:
    answer = visit(shared, None, "/pages/sign-in", "POST", content=b"token=" + b"x" * 2**20)
    assert answer.status_code == 413
    twice = visit(shared, None, "/pages/sign-in", "POST", content=b"token=a&token=b")
    assert twice.status_code == 422


def test_an_error_page_keeps_the_navigation_of_a_visitor(shared: Service) -> None:
    answer = visit(shared, STEWARD, "/pages/jobs?unknown=1")
    assert answer.status_code == 422
    assert 'aria-label="Pages"' in answer.text
    assert 'aria-label="Pages"' not in visit(shared, None, "/pages/sign-in?unknown=1").text
