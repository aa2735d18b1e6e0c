"""Statistics and tunings over HTTP: one price, one charge, one release to its owner, and a receipt that recomputes."""

import hashlib
from typing import Any

import numpy as np
import pytest

from tests.service.conftest import MakeService
from tests.support.service import Service
from tests.support.world import check_books

COUNTS = {"name": "counts", "bins": 3}
STATISTIC: dict[str, Any] = {"columns": ["sex", "age"], "method": COUNTS, "privacy": {"epsilon": 0.4}}
CANDIDATES: list[dict[str, Any]] = [
    {"method": {"name": "output_perturbation", "steps": 5}, "preparation": {"name": "declared"}},
    {"method": {"name": "dp_gd", "steps": 3}, "regularizer": {"name": "l2", "strength": 0.1}},
]
TUNING: dict[str, Any] = {"target": "income", "candidates": CANDIDATES, "repeats": 2, "privacy": {"epsilon": 0.5}}
pytestmark = pytest.mark.slow


def _call(service: Service, method: str, path: str, role: str = "analyst", **sent: Any) -> Any:
    return service.call(role, method, f"/v1/{path}", **sent)


def _released(service: Service, route: str, body: dict[str, Any], released: str) -> tuple[Any, Any, Any]:
    """Price a job, submit it twice under one key, and return it when finished, its release and its receipt."""
    price = _call(service, "POST", "quotes", json=body).json()
    key = {"Idempotency-Key": "one"}
    answer = _call(service, "POST", route, json=body, headers=key)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"].endswith(answer.json()["id"])
    again = _call(service, "POST", route, json=body, headers=key)
    assert again.json()["id"] == answer.json()["id"]
    job = service.finished(answer.json()["id"])
    assert (job["state"], job["quote"]) == ("done", price)
    assert service.budget(body["dataset"])["remaining"] == price["remaining_after"]
    release = _call(service, "GET", f"jobs/{job['id']}/{released}")
    receipt = service.receipt(job["id"])["receipt"]
    assert receipt["model_sha256"] == hashlib.sha256(release.content).hexdigest()
    check_books(service.database, service.app.state.services.keys.jwks())
    return job, release.json(), receipt


def test_a_cross_table_is_quoted_charged_released_and_receipted(make_service: MakeService, tmp_path: Any) -> None:
    with make_service(tmp_path / "home") as service:
        dataset = service.dataset()
        body = STATISTIC | {"dataset": dataset}
        job, release, receipt = _released(service, "statistics", body, "statistic")
        assert (job["kind"], [query["name"] for query in job["quote"]["queries"]]) == ("statistic", ["cells"])
        repeated = _call(service, "POST", "jobs", json=body, headers={"Idempotency-Key": "one"})
        assert repeated.json()["id"] == job["id"]
        assert (release["kind"], release["result"]["name"], release["job"]) == ("statistic", "counts", job["id"])
        axes = release["result"]["axes"]
        assert [axis["column"]["name"] for axis in axes] == ["sex", "age"]
        counts = np.array(release["result"]["counts"]).reshape(-1, 3)
        assert counts.shape[0] == len(axes[0]["column"]["categories"]) + 1
        assert receipt["method"] == COUNTS
        for kind in ("model", "profile"):
            refused = _call(service, "GET", f"jobs/{job['id']}/{kind}")
            assert (refused.status_code, "jobs/{id}/statistic" in refused.json()["detail"]) == (404, True)
        service.analyst("rival", dataset)
        assert _call(service, "GET", f"jobs/{job['id']}/statistic", "rival").status_code == 404
        assert _call(service, "GET", f"jobs/{job['id']}/statistic", "auditor").status_code == 403
        refused = _call(service, "POST", "statistics", json=body | {"columns": ["nobody"]})
        assert (refused.status_code, refused.json()["violations"][0]["where"]) == (422, "body.columns.0")
        model = {"dataset": dataset, "target": "income", "privacy": {"epsilon": 0.1}}
        assert _call(service, "POST", "statistics", json=model).status_code == 422


def test_a_tuning_is_quoted_charged_released_and_receipted(make_service: MakeService, tmp_path: Any) -> None:
    with make_service(tmp_path / "home") as service:
        body = TUNING | {"dataset": service.dataset()}
        job, model, receipt = _released(service, "tunings", body, "model")
        assert (job["kind"], job["progress"]) == ("model", {"done": 4, "total": 4})
        assert [query["mechanism"] for query in job["quote"]["queries"]] == [{"name": "selection", "runs": 4}]
        assert (model["tuning"]["candidate"] in (0, 1), model["tuning"]["runs"]) == (True, 4)
        assert "intervals" not in model
        assert receipt["event"]["type"] == "SelectionDpEvent"
        assert [trial["plan"]["queries"][-1]["name"] for trial in receipt["method"]["trials"]] == ["score", "score"]
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
