"""Twins over HTTP: from public facts alone."""

import csv
from typing import Any

import pytest

from tests.support.service import Service


@pytest.fixture(scope="module")
def dataset(shared: Service) -> str:
    return shared.dataset()


def _twin(service: Service, dataset: str, **asked: Any) -> list[dict[str, str]]:
    answer = service.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(answer.text.splitlines()))


def test_a_twin_is_of_the_columns_declared_and_a_function_of_its_seed(shared: Service, dataset: str) -> None:
    rows = _twin(shared, dataset, rows=50, seed=4)
    assert len(rows) == 50
    assert set(rows[0]) == {"age", "sex", "income"}
    assert all(
        0 <= float(row["age"]) <= 100 and row["sex"] in "fm" and row["income"] in ("low", "high") for row in rows
    )
    assert rows == _twin(shared, dataset, rows=50, seed=4)
    assert rows[:10] == _twin(shared, dataset, rows=10, seed=4)
    assert rows != _twin(shared, dataset, rows=50)


@pytest.mark.slow
def test_a_twin_follows_the_released_profile(shared: Service) -> None:
    dataset = shared.dataset()
    asked = f"/v1/datasets/{dataset}/twin"
    refused = shared.call("analyst", "GET", asked, params={"source": "profile"})
    assert refused.json()["violations"] == [
        {"where": "query.source", "what": "cannot be had: no profile was released of this dataset yet"}
    ]
    body = {"dataset": dataset, "method": {"name": "profile"}, "privacy": {"epsilon": 2.5}}
    job = shared.call("analyst", "POST", "/v1/statistics", json=body).json()
    assert shared.finished(job["id"])["state"] == "done"
    rows = _twin(shared, dataset, rows=400)
    told = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/profile").json()
    old = sum(float(row["age"]) > 80 for row in rows)  # of 20 to 79 in the data; the rest is the counts' noise
    share = sum(
        max(0.0, c) for c, e in zip(told["columns"][0]["counts"], told["columns"][0]["edges"], strict=False) if e >= 80
    )
    share /= sum(max(0.0, c) for c in told["columns"][0]["counts"])
    assert abs(old / 400 - share) < 0.1
    assert _twin(shared, dataset, rows=400) == _twin(shared, dataset, rows=400, source="profile")
    assert _twin(shared, dataset, rows=400) != _twin(shared, dataset, rows=400, source="declaration")


@pytest.mark.parametrize("asked", [{"rows": 0}, {"rows": 100_001}, {"seed": -1}, {"source": "data"}, {"rwos": 5}])
def test_what_is_no_twin_is_refused(shared: Service, dataset: str, asked: dict[str, Any]) -> None:
    answer = shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params=asked)
    assert answer.status_code == 422
