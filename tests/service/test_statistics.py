"""Statistics over HTTP: priced, charged, receipted, told to who asked."""

import hashlib
from typing import Any

import numpy as np
import pytest

from tests.service.conftest import MakeService
from tests.support.service import Service
from tests.support.world import check_books

COUNTS = {"name": "counts", "bins": 3}
ASKED: dict[str, Any] = {"columns": ["sex", "age"], "method": COUNTS, "privacy": {"epsilon": 0.4}}
pytestmark = pytest.mark.slow


def _call(service: Service, method: str, path: str, role: str = "analyst", **sent: Any) -> Any:
    return service.call(role, method, f"/v1/{path}", **sent)


def test_a_cross_table_is_quoted_charged_released_and_receipted(make_service: MakeService, tmp_path: Any) -> None:
    with make_service(tmp_path / "home") as service:
        dataset = service.dataset()
        body = ASKED | {"dataset": dataset}
        price = _call(service, "POST", "quotes", json=body).json()
        assert [query["name"] for query in price["queries"]] == ["cells"]
        answer = _call(service, "POST", "statistics", json=body, headers={"Idempotency-Key": "one"})
        assert answer.status_code == 202, answer.text
        assert answer.headers["Location"].endswith(answer.json()["id"])
        again = _call(service, "POST", "jobs", json=body, headers={"Idempotency-Key": "one"})
        assert again.json()["id"] == answer.json()["id"]
        job = service.finished(answer.json()["id"])
        assert (job["kind"], job["state"], job["quote"]) == ("statistic", "done", price)
        assert _call(service, "GET", f"datasets/{dataset}/budget").json()["remaining"] == price["remaining_after"]
        found = _call(service, "GET", f"jobs/{job['id']}/statistic")
        told = found.json()
        assert (told["kind"], told["result"]["name"], told["job"]) == ("statistic", "counts", job["id"])
        assert [axis["column"]["name"] for axis in told["result"]["axes"]] == ["sex", "age"]
        counts = np.array(told["result"]["counts"]).reshape(-1, 3)
        assert counts.shape[0] == len(told["result"]["axes"][0]["column"]["categories"]) + 1
        receipt = _call(service, "GET", f"jobs/{job['id']}/receipt").json()
        assert receipt["receipt"]["model_sha256"] == hashlib.sha256(found.content).hexdigest()
        assert receipt["receipt"]["method"] == COUNTS
        assert service.call(None, "POST", "/v1/receipts/verify", json=receipt).json()["valid"]
        for kind in ("model", "profile"):
            refused = _call(service, "GET", f"jobs/{job['id']}/{kind}")
            assert (refused.status_code, "jobs/{id}/statistic" in refused.json()["detail"]) == (404, True)
        service.analyst("rival", dataset)
        assert _call(service, "GET", f"jobs/{job['id']}/statistic", "rival").status_code == 404
        assert _call(service, "GET", f"jobs/{job['id']}/statistic", "auditor").status_code == 403
        refused = _call(service, "POST", "statistics", json=body | {"columns": ["nobody"]})
        assert (refused.status_code, refused.json()["violations"][0]["where"]) == (422, "body.columns")
        model = {"dataset": dataset, "target": "income", "privacy": {"epsilon": 0.1}}
        assert _call(service, "POST", "statistics", json=model).status_code == 422
        check_books(service.database, service.app.state.services.keys.jwks())
