"""A ledger whose stored state cannot be read affects only its own datasets, until the verification stops all writes."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.service.conftest import MakeService
from tests.support.service import JOB

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("each_database")
@pytest.mark.parametrize("document", ["{", "[]", '{"frozen":true}'], ids=["no JSON", "no object", "no state"])
def test_other_datasets_jobs_and_metrics_are_answered(tmp_path: Path, make_service: MakeService, document: str) -> None:
    with make_service(tmp_path / "home") as service:
        damaged, intact = service.dataset(), service.dataset()
        jobs = {}
        for dataset in (damaged, intact):
            jobs[dataset] = service.done(JOB | {"dataset": dataset})["id"]
            service.call("analyst", "GET", f"/v1/datasets/{dataset}/budget")  # so that the answer is cached
        with service.database.write() as connection:
            statement = sa.text("update ledgers set state = :document where id = :id")
            connection.execute(statement, {"document": document, "id": damaged})

        for role in ("steward", "auditor", "analyst"):
            for query in ("", "?state=open", "?state=frozen"):
                response = service.call(role, "GET", f"/v1/datasets{query}")
                assert response.status_code == 200, response.text
                listed = [dataset["id"] for dataset in response.json()["items"]]
                assert listed == ([] if "frozen" in query else [intact])
            for path in ("", "/budget"):
                response = service.call(role, "GET", f"/v1/datasets/{damaged}{path}")
                assert (response.status_code, response.json()["code"]) == (503, "dataset_damaged")
        submission = service.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": damaged})
        assert (submission.status_code, submission.json()["code"]) == (503, "dataset_damaged")

        first = service.call("steward", "GET", "/v1/datasets?limit=1&order=asc").json()
        assert first["items"] == [], "the damaged dataset is the oldest"
        second = service.call("steward", "GET", f"/v1/datasets?limit=1&order=asc&cursor={first['next']}").json()
        assert [dataset["id"] for dataset in second["items"]] == [intact]

        listed_jobs = service.call("analyst", "GET", "/v1/jobs").json()["items"]
        shares = {job["id"]: job["share"] for job in listed_jobs}
        assert shares[jobs[damaged]] is None
        assert shares[jobs[intact]] > 0

        metrics = service.call("auditor", "GET", "/metrics").text.splitlines()
        assert "purse_ledgers_unreadable 1.0" in metrics
        assert 'purse_budget_share_bucket{le="+Inf"} 1.0' in metrics
