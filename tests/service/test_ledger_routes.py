"""The ledger as auditors read it, and receipts as anyone may check them."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from accounting.records import receipt as receipts
from accounting.records import signing
from accounting.records.chain import Entry, Head
from accounting.records.heads import read_head
from accounting.records.ledger import spent_epsilon
from accounting.records.offline import verify_ledger
from accounting.records.replay import replay
from accounting.records.signing import sign_json
from tests.support.service import JOB, Service


@pytest.fixture(scope="module")
def released(shared: Service) -> dict[str, Any]:
    """A job that ran to its end: its dataset, its id and its receipt document."""
    dataset = shared.dataset()
    job = shared.done(JOB | {"dataset": dataset})["id"]
    return {"dataset": dataset, "job": job, "document": shared.receipt(job)}


def _ledger(service: Service, dataset: str, **query: Any) -> dict[str, Any]:
    response = service.call("auditor", "GET", f"/v1/datasets/{dataset}/ledger", params=query)
    assert response.status_code == 200
    page: dict[str, Any] = response.json()
    return page


def _verify(service: Service, document: Any) -> dict[str, Any]:
    response = service.client.post("/v1/receipts/verify", json=document)
    assert response.status_code == 200, response.text
    verification: dict[str, Any] = response.json()
    return verification


@pytest.mark.slow
def test_every_reader_of_the_ledger_can_replay_it(shared: Service, released: dict[str, Any]) -> None:
    page = _ledger(shared, released["dataset"])
    state = replay([Entry.from_json(entry) for entry in page["items"]])
    kinds = [entry["kind"] for entry in page["items"]]
    assert kinds == ["opened", "charged", "started", "released"]
    assert page["next"] is None
    charged = page["items"][1]["body"]
    names = {"analyst": "the analyst", "dataset": released["dataset"], "job": released["job"]}
    assert charged == charged | names | {"method": released["document"]["receipt"]["method"]["name"]}
    budget = shared.budget(released["dataset"], "auditor")
    assert budget["spent"]["epsilon"] == spent_epsilon(state) > 0
    assert "people" not in json.dumps([entry for entry in page["items"] if entry["kind"] != "opened"])


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_join_to_the_whole(shared: Service, released: dict[str, Any], limit: int) -> None:
    whole = _ledger(shared, released["dataset"])["items"]
    entries: list[Any] = []
    query: dict[str, Any] = {"limit": limit}
    while True:
        page = _ledger(shared, released["dataset"], **query)
        assert 1 <= len(page["items"]) <= limit
        entries += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert entries == whole


def test_after_the_end_there_is_nothing(shared: Service, released: dict[str, Any]) -> None:
    assert _ledger(shared, released["dataset"], cursor="999999999999999") == {"items": [], "next": None}


@pytest.mark.parametrize("cursor", ["-1", "x", "1e3", "9" * 16, "٣"])
def test_bad_cursor_is_refused(shared: Service, released: dict[str, Any], cursor: str) -> None:
    path = f"/v1/datasets/{released['dataset']}/ledger"
    response = shared.call("steward", "GET", path, params={"cursor": cursor})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


def test_unknown_dataset_is_404(shared: Service) -> None:
    response = shared.call("auditor", "GET", "/v1/datasets/ds_nobody/ledger")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_keys_are_public_halves_only(shared: Service) -> None:
    keys = shared.client.get("/v1/keys").json()["keys"]
    assert len(keys) == 1
    assert set(keys[0]) == {"kty", "crv", "x", "kid", "use", "alg"}
    assert (keys[0]["kty"], keys[0]["crv"], keys[0]["alg"]) == ("OKP", "Ed25519", "Ed25519")
    file = shared.home / "signing-key.json"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_receipt_verifies_here_and_offline(shared: Service, released: dict[str, Any]) -> None:
    report = _verify(shared, released["document"])
    assert report | {"recomputed_epsilon": 0, "accountant": ""} == {
        "valid": True,
        "signature": True,
        "epsilon": True,
        "chain": True,
        "stated_epsilon": released["document"]["receipt"]["epsilon"],
        "recomputed_epsilon": 0,
        "accountant": "",
        "reason": None,
    }
    assert 0 < report["recomputed_epsilon"] <= 0.5 * (1 + 1e-9)
    assert receipts.verify(released["document"], shared.client.get("/v1/keys").json()).holds


def test_a_changed_receipt_is_not_valid(shared: Service, released: dict[str, Any]) -> None:
    """tests/unit/accounting/test_receipt.py changes each field."""
    document = released["document"]
    report = _verify(shared, document | {"receipt": document["receipt"] | {"epsilon": 0.1}})
    assert (report["valid"], report["signature"], report["chain"]) == (False, False, None)
    assert report["recomputed_epsilon"] is None
    assert report["reason"]


def test_a_receipt_of_another_server_is_not_valid_even_with_its_key_inside(
    shared: Service, released: dict[str, Any]
) -> None:
    key = signing.generate_key()
    receipt = released["document"]["receipt"]
    foreign = {"receipt": receipt, "signature": sign_json(receipt, key)}
    assert _verify(shared, foreign)["signature"] is False
    response = shared.client.post("/v1/receipts/verify", json=foreign | {"keys": signing.jwks(key)})
    assert response.status_code == 422


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"receipt": {}, "signature": ""},
        {"receipt": {}, "signature": "a.b.c"},
        {"receipt": [], "signature": "a.b.c"},
        {"receipt": {"dataset": "canary4711", "sequence": True}, "signature": "a.b.c"},
        {"receipt": {"canary4711": 1}, "signature": "canary4711.b.c"},
    ],
)
def test_an_invalid_receipt_gets_422_without_its_content(shared: Service, document: Any) -> None:
    response = shared.client.post("/v1/receipts/verify", json=document)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert "canary4711" not in response.text


@pytest.mark.slow
def test_a_receipt_past_the_ledgers_end_is_not_valid(service: Service) -> None:
    """A service that restored an old backup signed the receipt, but its ledger does not reach it."""
    document = service.receipt(service.done(JOB | {"dataset": service.dataset()})["id"], "auditor")
    with service.database.write() as connection:
        connection.execute(sa.text("delete from ledger_entries where kind = 'released'"))
    report = _verify(service, document)
    assert (report["valid"], report["signature"], report["epsilon"], report["chain"]) == (False, True, True, False)


@pytest.mark.slow
def test_the_durable_state_shows_a_charge_a_dataset_and_a_token(service: Service) -> None:
    service.engine.gate.clear()
    dataset = service.dataset()
    states = [service.durable(dataset)]
    assert service.durable(dataset) == states[0]
    assert service.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": dataset}).status_code == 202
    states.append(service.durable(dataset))
    service.dataset()
    states.append(service.durable(dataset))
    service.token("new", "auditor")
    states.append(service.durable(dataset))
    for i in range(3):
        assert states[i][0] != states[i + 1][0]
    assert states[0][1] != states[1][1]
    assert states[1][2] != states[2][2]


def test_the_head_is_the_newest_entry_signed(shared: Service, released: dict[str, Any]) -> None:
    newest = _ledger(shared, released["dataset"])["items"][-1]
    answer = shared.call("auditor", "GET", f"/v1/datasets/{released['dataset']}/ledger/head")
    head, keys = answer.json(), shared.client.get("/v1/keys").json()
    assert (head["dataset"], head["sequence"], head["hash"]) == (released["dataset"], 4, newest["hash"])
    assert head["at"] == newest["body"]["at"]
    assert read_head(answer.content, keys) == Head(4, released["document"]["receipt"]["hash"])
    assert shared.call("steward", "GET", "/v1/datasets/ds_nobody/ledger/head").status_code == 404


@pytest.mark.slow
def test_an_analysts_head_is_that_of_their_newest_release(shared: Service) -> None:
    """The head does not show what others do in between. A later ledger must still contain it."""

    def run(role: str) -> Head:
        job = shared.done(JOB | {"dataset": dataset}, role=role)
        receipt = shared.receipt(job["id"], role)["receipt"]
        return Head(receipt["sequence"], receipt["hash"])

    def visible_head(role: str) -> Head:
        head = shared.call(role, "GET", f"/v1/datasets/{dataset}/ledger/head").json()
        return Head(head["sequence"], head["hash"])

    dataset = shared.dataset()
    first = visible_head("auditor")
    assert visible_head("analyst") == first
    run("steward")
    assert visible_head("analyst") == first
    mine = run("analyst")
    run("steward")
    assert visible_head("analyst") == mine
    ledger = [Entry.from_json(entry) for entry in _ledger(shared, dataset)["items"]]
    assert visible_head("auditor") == ledger[-1].head
    verify_ledger(ledger, [first, mine])
