"""Twins and forecasts over HTTP: from public facts alone."""

import csv
import sys
from typing import Any

import pytest
import sqlalchemy as sa

from app.persistence.tables import samples
from tests.support.service import SPEC, Service, people


@pytest.fixture(scope="module")
def dataset(shared: Service) -> str:
    return shared.dataset()


def _twin(service: Service, dataset: str, **asked: Any) -> list[dict[str, str]]:
    answer = service.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(answer.text.splitlines()))


def test_a_twin_is_of_the_columns_declared_and_a_function_of_its_number(shared: Service, dataset: str) -> None:
    rows = _twin(shared, dataset, rows=50, number=4)
    assert len(rows) == 50
    assert set(rows[0]) == {"age", "sex", "income"}
    assert all(
        0 <= float(row["age"]) <= 100 and row["sex"] in "fm" and row["income"] in ("low", "high") for row in rows
    )
    assert rows == _twin(shared, dataset, rows=50, number=4)
    assert rows[:10] == _twin(shared, dataset, rows=10, number=4)
    assert rows != _twin(shared, dataset, rows=50)


@pytest.mark.slow
def test_a_twin_follows_the_released_profile(shared: Service) -> None:
    dataset = shared.dataset()
    path = f"/v1/datasets/{dataset}/twin"
    refused = shared.call("analyst", "GET", path, params={"source": "profile"})
    assert refused.json()["violations"] == [
        {
            "where": "query.source",
            "what": "does not exist for this dataset: no profile has been released. Leave it out, or choose another",
        }
    ]
    body = {"dataset": dataset, "method": {"name": "profile"}, "privacy": {"epsilon": 2.5}}
    job = shared.call("analyst", "POST", "/v1/statistics", json=body).json()
    assert shared.finished(job["id"])["state"] == "done"
    rows = _twin(shared, dataset, rows=400)
    profile = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/profile").json()
    old = sum(float(row["age"]) > 80 for row in rows)  # of 20 to 79 in the data; the rest is the counts' noise
    share = sum(
        max(0.0, c)
        for c, e in zip(profile["columns"][0]["counts"], profile["columns"][0]["edges"], strict=False)
        if e >= 80
    )
    share /= sum(max(0.0, c) for c in profile["columns"][0]["counts"])
    assert abs(old / 400 - share) < 0.1
    assert _twin(shared, dataset, rows=400) == _twin(shared, dataset, rows=400, source="profile")
    assert _twin(shared, dataset, rows=400) != _twin(shared, dataset, rows=400, source="declaration")


def test_twins_and_forecasts_draw_from_a_public_sample(shared: Service) -> None:
    """Incomes follow the sample's ages. No other column and no other row of its file appears in the draws."""
    dataset = shared.dataset()
    path = f"/v1/datasets/{dataset}/sample"
    assert shared.call("analyst", "GET", path).status_code == 404
    rows = [f"{age / 8},,{'high' if age > 400 else 'low'},secret" for age in range(8, 800, 8)]
    response = shared.attach(dataset, "\n".join(["age,sex,income,note", *rows]).encode(), "Census 2019")
    assert response.status_code == 200, response.text
    assert response.json()["report"]["columns"][1]["outcomes"][0]["what"] == "missing"
    sample = shared.call("analyst", "GET", path).json()
    assert (sample["rows"], sample["published"], sample["attached_by"]) == (99, "Census 2019", "bootstrap")
    drawn = _twin(shared, dataset, rows=300)
    assert drawn == _twin(shared, dataset, rows=300, source="sample")
    assert {float(row["age"]) for row in drawn} <= set(range(1, 100))
    assert all((row["income"] == "high") == (float(row["age"]) > 50) and row["sex"] == "" for row in drawn)
    assert set(drawn[0]) == {"age", "sex", "income"}
    forecast = _forecast(shared, dataset)
    assert (forecast["source"], forecast["signal"]) == ("sample", None)
    assert forecast["optimum"] > 0.9
    assert _forecast(shared, dataset, source="declaration")["signal"] == 0.6
    assert shared.attach(dataset, None, "Census 2020").json()["rows"] == 100, "the newer sample replaces it"
    assert shared.call("steward", "DELETE", path).status_code == 204
    assert shared.call("steward", "DELETE", path).status_code == 404
    refused = shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params={"source": "sample"})
    assert refused.json()["violations"][0]["where"] == "query.source"


def test_a_sample_goes_with_its_datasets_values(shared: Service) -> None:
    dataset = shared.dataset()
    assert shared.attach(dataset).status_code == 200
    assert shared.call("steward", "DELETE", f"/v1/datasets/{dataset}").status_code == 200
    with shared.database.read() as connection:
        assert connection.scalar(sa.select(samples.c.rows).where(samples.c.dataset_id == dataset)) is None


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"age,sex,income\n" + b"1,f,low\n" * 4, "unreadable_file"),
        (b"age,sex\n1,f\n", "invalid_request"),
        (b"age,sex,income\n" + b"1,f,low\n" * (2**18 // 3 + 1), "too_large"),
        (b"age,sex,income\n" + b"old,f,low\n" * 9, "unparsed_values"),
        (b"x" * (2**24 + 1), "too_large"),
    ],
    ids=["few rows", "a column less", "many values", "no numbers", "many bytes"],
)
def test_an_invalid_sample_is_refused_and_the_previous_one_stays(
    shared: Service, dataset: str, file: bytes, code: str
) -> None:
    sample_before = shared.attach(dataset).json()
    spec = f"/v1/datasets/{dataset}/sample"
    assert shared.attach(dataset, file).json()["code"] == code
    sample = shared.call("steward", "GET", spec).json()
    assert sample == {key: sample_before[key] for key in sample}
    assert shared.call("steward", "DELETE", spec).status_code == 204


def test_no_answer_says_whether_a_sample_equals_the_data(shared: Service) -> None:
    """A sample with the dataset's own values is accepted like any other. A refusal would depend on the data."""
    file = people(200)
    dataset = shared.upload(SPEC | {"name": "sampled"}, file + b"1,f,low\n").json()["id"]
    answers = [shared.attach(dataset, rows).json() for rows in (file + b"1,f,low\n", file + b"2,f,low\n")]
    for answer in answers:
        del answer["attached_at"]
    assert answers[0] == answers[1]
    upload = shared.call("steward", "POST", "/v1/uploads", headers={"Upload-Length": "10"}).json()["id"]
    for named in ({"upload": upload}, {"file": "people.csv"}, {"sha256": "0" * 64}):
        headers = {"Content-Type": "application/octet-stream"}
        request = {"params": {"published": "here"} | named, "content": file, "headers": headers}
        assert shared.call("steward", "PUT", f"/v1/datasets/{dataset}/sample", **request).status_code == 422
    assert shared.call("steward", "DELETE", f"/v1/uploads/{upload}").status_code == 204


@pytest.mark.parametrize("query", [{"rows": 0}, {"rows": 100_001}, {"number": -1}, {"source": "data"}, {"rwos": 5}])
def test_an_invalid_request_for_a_twin_is_refused(shared: Service, dataset: str, query: dict[str, Any]) -> None:
    answer = shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin", params=query)
    assert answer.status_code == 422


FORECAST: dict[str, Any] = {
    "target": "income",
    "method": {"name": "dp_gd", "steps": 20},
    "privacy": {"epsilons": [2.0, 0.1]},
    "runs": 3,
    "signal": 0.6,
    "wanted": 0.55,
}


def _forecast(service: Service, dataset: str, **changes: Any) -> dict[str, Any]:
    answer = service.call("auditor", "POST", "/v1/forecasts", json={"dataset": dataset, **FORECAST, **changes})
    assert answer.status_code == 200, answer.text
    forecast: dict[str, Any] = answer.json()
    return forecast


@pytest.mark.slow
def test_a_forecast_states_its_scores_and_its_assumptions(shared: Service, dataset: str) -> None:
    forecast = _forecast(shared, dataset)
    assert [each["epsilon"] for each in forecast["at"]] == [0.1, 2.0]
    assert forecast["measure"] == "accuracy"
    assert forecast["twin_records"] == forecast["records"]
    spread = forecast["at"][1]["score"]
    assert 0 <= spread["low"] <= spread["median"] <= spread["high"] <= 1
    assert abs(forecast["constant"] - 0.5) < 0.05
    assert abs(forecast["optimum"] - (0.5 + 0.6 * 0.5)) < 0.05, "200 rows and two columns find nearly all of the signal"
    assert "declaration alone" in forecast["rests_on"][0]
    assert "strength 0.6" in forecast["rests_on"][1]
    assert forecast["wanted"]["score"] == 0.55
    number = _forecast(shared, dataset, target="age", wanted=None, loss={"name": "squared"})
    assert number["measure"] == "r2"
    assert number["at"][1]["rmse"]["median"] > 0


_opened: list[str] = []
_watching: list[bool] = []
sys.addaudithook(lambda event, arguments: _opened.append(str(arguments[0])) if _watching and event == "open" else None)


@pytest.mark.slow
def test_no_file_of_the_data_is_opened_and_nothing_is_charged(service: Service) -> None:
    dataset = service.dataset()
    state_before = service.durable(dataset)
    _watching.append(True)
    try:
        _twin(service, dataset, rows=10)
        _forecast(service, dataset)
        assert service.attach(dataset).status_code == 200
        assert service.call("analyst", "GET", f"/v1/datasets/{dataset}/sample").status_code == 200
        assert _forecast(service, dataset)["source"] == "sample"
        _twin(service, dataset, rows=10, source="sample")
        assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}/sample").status_code == 204
    finally:
        _watching.clear()
    stored = list(service.home.rglob("*.npy"))
    assert stored, "the data are there to be opened"
    assert not [name for name in _opened if name.endswith(".npy") or "meta.json" in name]
    assert service.durable(dataset) == state_before
    for path in stored:
        path.unlink()
    assert _forecast(service, dataset, twin=1)["twin"] == 1, "a forecast needs no file of the data"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"privacy": {"epsilons": []}}, "invalid_request"),
        ({"privacy": {"epsilons": [0.0]}}, "out_of_range"),
        ({"privacy": {"delta": 1e-3}}, "out_of_range"),
        ({"signal": 1.0}, "out_of_range"),
        ({"runs": 51}, "out_of_range"),
        ({"source": "profile"}, "invalid_request"),
        ({"target": "wealth"}, "invalid_request"),
        ({"loss": {"name": "squared"}}, "unsupported_combination"),
        ({"method": {"name": "dp_gd", "steps": 10_000}, "runs": 50}, "out_of_range"),
    ],
)
def test_an_impossible_forecast_is_refused(shared: Service, dataset: str, changes: dict[str, Any], code: str) -> None:
    answer = shared.call("analyst", "POST", "/v1/forecasts", json={"dataset": dataset, **FORECAST, **changes})
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_simultaneous_twins_are_limited(shared: Service, dataset: str) -> None:
    twins = shared.app.state.services.twins
    tokens = shared.call("steward", "GET", "/v1/tokens").json()["items"]
    owner = next(token["identity"] for token in tokens if token["name"] == "the analyst")
    with twins.slot(owner), twins.slot(owner):
        refused = shared.call("analyst", "GET", f"/v1/datasets/{dataset}/twin")
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "5"
