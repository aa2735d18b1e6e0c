"""An auditor in a real browser follows a ledger, reads the spending by analyst, and checks a receipt."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from accounting.records.chain import Entry, to_lines
from accounting.records.signing import sign_json
from purse import Client
from tests.support.browser import Visitor, delayed
from tests.support.ledgers import relinked
from tests.support.live import Live
from tests.support.patience import PATIENCE
from tests.support.receipts import KEY, KEYS, make
from tests.support.service import SPEC, people

JOBS: dict[str, dict[str, Any]] = {
    "ada": {"method": {"name": "dp_gd", "steps": 10}, "privacy": {"epsilon": 0.3}},
    "bob": {"method": {"name": "dp_svrg"}, "privacy": {"epsilon": 0.2}},
}


@pytest.fixture(scope="module")
def audited(server: Live, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A dataset, two analysts with a job each, an auditor, and the folder of the analysts' files."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "people.csv").write_bytes(people())
    case: dict[str, Any] = {"kept": folder}
    with Client(server.url, server.token) as steward:
        case["dataset"] = steward.datasets.upload(folder / "people.csv", spec=SPEC).id
        case["auditor"] = steward.tokens.create("the auditor", "auditor").token
        for name, request in JOBS.items():
            token = steward.tokens.create(name, "analyst").token
            steward.datasets.grant(case["dataset"], name)
            with Client(server.url, token) as analyst:
                job = analyst.jobs.submit(dataset=case["dataset"], target="income", **request)
                (folder / name).mkdir()
                (folder / name / "model.json").write_text(job.result(PATIENCE).model_dump_json())
                job.receipt().save(folder / name)
                case[name] = job.id
    return case


@pytest.fixture
def auditor(browser: Browser, server: Live, audited: dict[str, Any]) -> Iterator[Page]:
    """The auditor's page, the ledger before them."""
    ledger = f"/pages/datasets/{audited['dataset']}/ledger"
    with Visitor.arrived(browser, server.url, audited["auditor"], first=ledger) as arrived:
        yield arrived.page


def test_an_auditor_sees_each_share_as_the_browser_recomputes_it(
    browser: Browser, server: Live, audited: dict[str, Any]
) -> None:
    """Start at the first page. All numbers equal those of the API, recomputed from the entries."""
    with Visitor.arrived(browser, server.url, audited["auditor"]) as visitor:
        page = visitor.page
        page.get_by_role("link", name="people").click()
        page.get_by_role("link", name="Ledger").click()
        expect(page.locator("[data-at=state]")).to_have_text(
            "Entries 1 to 7 are verified, hash by hash. No charge exceeded the budget. The server states the same."
        )
        with Client(server.url, audited["auditor"]) as client:
            budget = client.datasets.budget(audited["dataset"])
        computed = page.get_by_role("region", name="Computed in the browser")
        expect(computed.get_by_role("row")).to_have_count(1 + 4 + len(budget.analysts))
        expect(computed.get_by_role("cell", name="agrees")).to_have_count(4 + len(budget.analysts))
        shares = page.get_by_role("region", name="Shares by analyst")
        for analyst in budget.analysts:
            row = shares.get_by_role("row", name=re.compile(f"^{analyst.analyst} "))
            assert float(row.get_by_role("cell").last.inner_text().split(" ")[0]) == pytest.approx(
                100 * analyst.share, rel=1e-2
            )
        expect(page.get_by_role("region", name="Shares by method")).to_contain_text("dp_gd")
        entries = page.get_by_role("region", name="Entries")
        expect(entries.get_by_role("cell", name="verified", exact=True)).to_have_count(7)
        assert entries.get_by_role("rowheader").all_inner_texts() == [str(number) for number in range(7, 0, -1)]
        for label in ("Spent share of the budget over time", "Delta against epsilon of all"):
            drawn = page.get_by_role("img", name=label).locator("canvas")
            assert drawn.evaluate("c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean)")
        visitor.check()


def test_a_receipt_is_dropped_on_the_ledger_and_recomputed(auditor: Page, audited: dict[str, Any]) -> None:
    expect(auditor.locator("[data-at=state]")).to_contain_text("Entries 1 to 7 are verified")
    folder = audited["kept"] / "ada"
    requests = _requests(auditor)
    _give(auditor, folder / "receipt.json", folder / "keys.json", folder / "model.json")
    expect(auditor.locator("output")).to_contain_text("The receipt is valid.")
    checks = auditor.get_by_role("table", name="Checks")
    expect(checks.get_by_role("cell", name="valid", exact=True)).to_have_count(4)
    expect(checks).to_contain_text("this ledger is its release")
    expect(checks).to_contain_text("by exact_gaussian")
    _give(auditor, audited["kept"] / "bob" / "receipt.json")
    expect(auditor.locator("output")).to_contain_text("Some values are not computed here.")
    expect(checks).to_contain_text("needs `purse receipt verify`")
    _give(auditor, _signed({"id": "rcpt_elsewhere"}), _text(KEYS))
    expect(auditor.locator("output .wrong")).to_have_text("The receipt is not valid.")
    expect(checks).to_contain_text("the ledger's entry is not this release")
    assert requests == []


def test_a_receipt_that_is_dropped_before_the_ledger_is_followed_is_compared_with_it(
    auditor: Page, audited: dict[str, Any]
) -> None:
    with delayed(auditor, "**/ledger/entries*"):
        auditor.reload()
        _give(auditor, audited["kept"] / "ada" / "receipt.json")
        expect(auditor.locator("output")).to_contain_text("The receipt is valid.")
    expect(auditor.get_by_role("table", name="Checks")).to_contain_text("this ledger is its release")


def test_a_receipt_that_is_chosen_before_a_script_has_arrived_is_checked(
    visitor: Visitor, audited: dict[str, Any]
) -> None:
    page = visitor.page
    with delayed(page, "**/check.js"):
        page.goto("/pages/receipts", wait_until="commit")
        _give(page, audited["kept"] / "ada" / "receipt.json")
    expect(page.locator("output")).to_contain_text("The receipt is valid.")


def test_dropped_files_do_not_leave_the_browser(visitor: Visitor, audited: dict[str, Any]) -> None:
    """No request is sent. Changed, foreign and invalid documents are reported, and text stays text."""
    page = visitor.page
    page.goto("/pages")
    page.get_by_role("link", name="Check a receipt").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Check a receipt")
    visitor.check()
    requests, output = _requests(page), page.locator("output")
    folder = audited["kept"] / "ada"
    genuine = json.loads((folder / "receipt.json").read_text())
    files = {"receipt.json": folder / "receipt.json", "ledger.jsonl": audited["kept"] / "ledger.jsonl"}
    with Client(visitor.url, visitor.page.context.cookies()[0]["value"]) as client:
        files["ledger.jsonl"].write_bytes(
            to_lines(Entry.from_json(e.model_dump()) for e in client.ledger(audited["dataset"]))
        )
    _give(page, *files.values())
    expect(output).to_contain_text("The receipt is valid.")
    expect(page.get_by_role("row", name=re.compile("^keys "))).to_contain_text("as this service publishes them now")
    expect(
        page.get_by_role("img", name="delta against epsilon of this release alone").locator("canvas")
    ).to_be_visible()
    visitor.check()
    changed = {**genuine, "receipt": genuine["receipt"] | {"epsilon": 0.1}}
    for files_given, says in (
        ([_text(changed)], "the document was changed after it was signed"),
        ([_text(genuine), _text(KEYS)], "no trusted key made this signature"),
        ([_text(genuine), _text({"coefficients": [1]})], "the receipt is for another model"),
        ([_text(genuine | {"keys": KEYS})], "the document has an unknown key"),
        ([_text(KEYS)], "none of these files is a receipt"),
        ([_text(genuine["receipt"])], "A job's page saves it under Save the receipt"),
        ([b"\x00\xff"], "is not text in UTF-8."),
    ):
        _give(page, folder / "receipt.json")
        expect(output).to_contain_text("The receipt is valid.")
        _give(page, *files_given)
        expect(output.locator(".wrong")).to_be_visible()
        expect(output).to_contain_text(says)
    page.evaluate(
        """text => {
        const dropped = new DataTransfer();
        dropped.items.add(new File([text], "receipt.json"));
        document.querySelector("form[data-keys]").dispatchEvent(new DragEvent("drop", { dataTransfer: dropped }));
    }""",
        (folder / "receipt.json").read_text(),
    )
    expect(output).to_contain_text("The receipt is valid.")
    hostile = "<img src=x onerror=alert(1)>"
    _give(page, _signed({"dataset_name": hostile}), _text(KEYS))
    expect(page.get_by_role("cell", name=hostile)).to_be_visible()
    assert requests == []


def test_a_jobs_receipt_is_checked_as_it_is_shown(visitor: Visitor, audited: dict[str, Any]) -> None:
    page = visitor.page
    page.goto(f"/pages/jobs/{audited['ada']}")
    page.get_by_role("link", name="Check the receipt").click()
    expect(page.locator("output")).to_contain_text("The receipt is valid.")
    with page.expect_download() as keys:
        page.get_by_role("link", name="Save keys.json").click()
    assert json.loads(keys.value.path().read_text()) == json.loads((audited["kept"] / "ada/keys.json").read_text())
    visitor.check()


FORGED = {
    "a charge": "entry 2 does not hash",
    "a hash": "entry 3 does not follow",
    "a smaller charge": "entry 2 states another share",
    "the end": "for: head",
    "another ledger": "for: head",
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_changed_ledger_is_detected(auditor: Page, forged: str) -> None:
    """A charge was changed, with its hash or with all hashes recomputed, or the end is missing."""

    def forge(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        first, charge, *later = entries = [Entry.from_json(each) for each in document["items"]]
        smaller = replace(charge, body=charge.body | {"cost": ["1"] * len(charge.body["cost"])})
        renamed = replace(charge, body=charge.body | {"analyst": "eve"})
        forgeries = {
            "a charge": [first, smaller, *later],
            "a hash": [first, replace(renamed, hash=renamed.digest()), *later],
            "a smaller charge": relinked([first, smaller, *later]),
            "the end": entries[:4],
            "another ledger": relinked([first, renamed, *later]),
        }[forged]
        route.fulfill(response=answer, json=document | {"items": [entry.to_json() for entry in forgeries]})

    auditor.route("**/ledger/entries*", forge)
    auditor.reload()
    expect(auditor.locator("[data-at=state]")).to_have_text(re.compile(FORGED[forged]))


def _requests(page: Page) -> list[str]:
    """Return the list to which later requests are added."""
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    return urls


def _give(page: Page, *files: Path | bytes) -> None:
    contents = [
        {"name": "file", "mimeType": "", "buffer": f if isinstance(f, bytes) else f.read_bytes()} for f in files
    ]
    page.get_by_label("Files to check").set_input_files(contents)  # type: ignore[arg-type]


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


def _signed(change: dict[str, Any]) -> bytes:
    built = make() | change
    return _text({"receipt": built, "signature": sign_json(built, KEY)})


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
    visitor.confirm("Close the session")
    page.get_by_role("link", name="Check the receipt").click()
    expect(page.locator("output")).to_contain_text("The receipt is valid.")
    expect(page.locator("output")).to_contain_text("5 of 12")
    visitor.check()
