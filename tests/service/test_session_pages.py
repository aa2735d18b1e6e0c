"""Pages of sessions: what analysts, stewards and auditors see, and the end of a session."""

from typing import Any

from app.pages.words import planned_answer
from tests.support.pages import visit
from tests.support.service import STEWARD, Service

GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 40.0}
EVENTS = [{"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 12}]


def _opened(service: Service, dataset: str, **changes: Any) -> str:
    body = {"events": EVENTS, "title": "small <network>"} | changes
    answer = service.call("analyst", "POST", f"/v1/datasets/{dataset}/sessions", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_session_is_listed_shown_and_closed_by_its_analyst(shared: Service) -> None:
    dataset = shared.dataset()
    session = _opened(shared, dataset)
    shared.call("analyst", "POST", f"/v1/sessions/{session}/steps", json={"steps": 5})
    analyst = shared.tokens["analyst"]
    list_page = visit(shared, analyst, f"/pages/sessions?dataset={dataset}").text
    assert [part in list_page for part in (session, "small &lt;network&gt;", "5 of 12", "Open")] == [True] * 4
    assert session not in visit(shared, analyst, f"/pages/sessions?dataset={shared.dataset()}").text
    page = visit(shared, analyst, f"/pages/sessions/{session}").text
    assert ["multiplier 40" in page, "refunds nothing" in page, f"{session}/close" in page] == [True, False, True]
    assert visit(shared, analyst, f"/pages/sessions/{session}/close", "POST").status_code == 303
    closed_page = visit(shared, analyst, f"/pages/sessions/{session}").text
    assert ["Closed" in closed_page, "Close the session" in closed_page, f"{session}/receipt" in closed_page] == [
        True,
        False,
        True,
    ]
    assert shared.call("analyst", "GET", f"/v1/sessions/{session}").json()["state"] == "closed"


def test_others_see_a_session_as_their_role_allows(shared: Service) -> None:
    session = _opened(shared, shared.dataset())
    for token, may_close in ((STEWARD, True), (shared.tokens["auditor"], False)):
        page = visit(shared, token, f"/pages/sessions/{session}").text
        assert ["the analyst" in page, "Close the session" in page] == [True, may_close]
        assert session in visit(shared, token, "/pages/sessions").text
    assert visit(shared, shared.tokens["auditor"], f"/pages/sessions/{session}/close", "POST").status_code == 403
    other_token = shared.token("another")["token"]
    assert visit(shared, other_token, f"/pages/sessions/{session}").status_code == 404
    assert session not in visit(shared, other_token, "/pages/sessions").text


def test_a_session_without_a_refund_says_so(shared: Service) -> None:
    session = _opened(shared, shared.dataset(sessions="no_refund"))
    assert "Closing refunds nothing" in visit(shared, shared.tokens["analyst"], f"/pages/sessions/{session}").text


def test_a_dataset_with_a_holdout_set_offers_no_sessions(shared: Service) -> None:
    dataset = shared.dataset(holdout=0.2)
    assert "Refused, because" in visit(shared, STEWARD, f"/pages/datasets/{dataset}").text
    assert "Rule for sessions" not in visit(shared, STEWARD, f"/pages/datasets/{dataset}/manage").text


def test_the_ledger_names_entries_of_sessions_in_words(shared: Service) -> None:
    dataset = shared.dataset()
    session = _opened(shared, dataset)
    shared.call("analyst", "POST", f"/v1/sessions/{session}/close")
    shared.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"sessions": "no_refund"})
    page = visit(shared, shared.tokens["auditor"], f"/pages/datasets/{dataset}/ledger").text
    parts = ("session reserved", "session ended", f"/pages/sessions/{session}", "rule for sessions", "no_refund")
    assert [part in page for part in parts] == [True] * 5


def test_the_receipt_of_a_session_is_shown_and_saved(shared: Service) -> None:
    session = _opened(shared, shared.dataset())
    shared.call("analyst", "POST", f"/v1/sessions/{session}/close")
    receipt = shared.call("analyst", "GET", f"/v1/sessions/{session}/receipt")
    for token in (shared.tokens["analyst"], shared.tokens["auditor"]):
        page = visit(shared, token, f"/pages/sessions/{session}/receipt")
        assert [page.status_code, f"/pages/sessions/{session}" in page.text] == [200, True]
        saved = visit(shared, token, f"/pages/sessions/{session}/files/receipt")
        assert saved.content == receipt.content


def test_planned_answers_are_described_in_words() -> None:
    sampled = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.02, "event": GAUSSIAN}
    pure = {"type": "EpsilonDeltaDpEvent", "epsilon": 0.5, "delta": 0.0}
    texts = [planned_answer(event) for event in (sampled, pure)]
    assert texts == [
        "Gaussian noise on random batches (DP-SGD), sampling probability 0.02, noise multiplier 40",
        "Any mechanism with pure epsilon, epsilon 0.5",
    ]
