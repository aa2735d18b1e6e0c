"""Tunings over HTTP: one price for all runs, one model, one receipt that anybody can recompute."""

import hashlib
from typing import Any

import pytest

from tests.service.conftest import MakeService
from tests.support.service import Service
from tests.support.world import check_books

CANDIDATES: list[dict[str, Any]] = [
    {"method": {"name": "output_perturbation", "steps": 5}, "preparation": {"name": "declared"}},
    {"method": {"name": "dp_gd", "steps": 3}, "regularizer": {"name": "l2", "strength": 0.1}},
]
ASKED: dict[str, Any] = {"target": "income", "candidates": CANDIDATES, "repeats": 2, "privacy": {"epsilon": 0.5}}
pytestmark = pytest.mark.slow


def _call(service: Service, method: str, path: str, role: str = "analyst", **sent: Any) -> Any:
    return service.call(role, method, f"/v1/{path}", **sent)


def test_a_tuning_is_quoted_charged_released_and_receipted(make_service: MakeService, tmp_path: Any) -> None:
    with make_service(tmp_path / "home") as service:
        dataset = service.dataset()
        body = ASKED | {"dataset": dataset}
        price = _call(service, "POST", "quotes", json=body).json()
        (query,) = price["queries"]
        assert query["mechanism"] == {"name": "selection", "runs": 4}
        answer = _call(service, "POST", "tunings", json=body, headers={"Idempotency-Key": "one"})
        assert answer.status_code == 202, answer.text
        job = service.finished(answer.json()["id"])
        assert (job["kind"], job["state"], job["quote"]) == ("model", "done", price)
        assert job["progress"] == {"done": 4, "total": 4}
        assert _call(service, "GET", f"datasets/{dataset}/budget").json()["remaining"] == price["remaining_after"]
        found = _call(service, "GET", f"jobs/{job['id']}/model")
        model = found.json()
        chosen = model["tuning"]
        assert (chosen["candidate"] in (0, 1), chosen["runs"]) == (True, 4)
        assert "intervals" not in model
        receipt = _call(service, "GET", f"jobs/{job['id']}/receipt").json()
        stated = receipt["receipt"]
        assert stated["model_sha256"] == hashlib.sha256(found.content).hexdigest()
        assert stated["event"]["type"] == "SelectionDpEvent"
        assert [trial["plan"]["queries"][-1]["name"] for trial in stated["method"]["trials"]] == ["score", "score"]
        assert service.call(None, "POST", "/v1/receipts/verify", json=receipt).json()["valid"]
        wrongs: list[dict[str, Any]] = [
            {"candidates": []},
            {"candidates": CANDIDATES[:1], "repeats": 1},
            {"repeats": 200},
        ]
        for wrong in wrongs:
            assert _call(service, "POST", "tunings", json=body | wrong).status_code == 422
        sampled = body | {"candidates": [{"method": {"name": "objective_perturbation"}}]}
        refused = _call(service, "POST", "quotes", json=sampled)
        assert (refused.status_code, refused.json()["code"]) == (422, "method_filter_mismatch")
        check_books(service.database, service.app.state.services.keys.jwks())
