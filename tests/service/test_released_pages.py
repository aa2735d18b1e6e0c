"""A job's page shows each number of its released document, under the same name."""

import re
from datetime import date, timedelta
from html import unescape
from itertools import pairwise
from typing import Any

import pytest

from app.pages.words import number
from tests.support.pages import visit
from tests.support.service import JOB, SPEC, Service, people

pytestmark = pytest.mark.slow

Row = tuple[str, ...]


def _released(service: Service, path: str, body: dict[str, Any], kind: str) -> tuple[dict[str, Any], set[Row]]:
    """The document that a request ends in, and the rows of all tables on the page of its job."""
    asked = service.call("analyst", "POST", f"/v1/{path}", json=body)
    assert asked.status_code == 202, asked.text
    job = service.finished(asked.json()["id"])
    document = service.call("analyst", "GET", f"/v1/jobs/{job['id']}/{kind}").json()
    page = visit(service, service.tokens["analyst"], f"/pages/jobs/{job['id']}").text
    found = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found)
    told = ([unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells)
    return document, {tuple(row[:-1] if row[-1:] == [""] else row) for row in told}  # a bar is drawn, not written


def whole(count: float) -> str:
    """Return a noisy count as a page shows it."""
    return f"{round(count):,}"


def _told(interval: dict[str, Any] | None) -> str:
    return (
        "–"
        if interval is None
        else f"{number(interval['value'], 3)} [{number(interval['low'], 3)}, {number(interval['high'], 3)}]"
    )


def _statistic(service: Service, method: dict[str, Any], **changes: Any) -> tuple[Any, set[Row]]:
    body = {"dataset": service.dataset(), "method": method, "privacy": {"epsilon": 0.5}} | changes
    document, rows = _released(service, "statistics", body, "profile" if method["name"] == "profile" else "statistic")
    return document if method["name"] == "profile" else document["result"], rows


def test_counts_of_one_column_and_a_cross_table(shared: Service) -> None:
    found, rows = _statistic(shared, {"name": "counts", "bins": 3}, columns=["age"])
    edges = found["axes"][0]["edges"]
    parts = [f"{number(low, 3)} to {number(high, 3)}" for low, high in pairwise(edges)]
    assert {(part, whole(count)) for part, count in zip(parts, found["counts"], strict=True)} <= rows
    found, rows = _statistic(shared, {"name": "counts"}, columns=["sex", "income"])
    cells = [whole(count) for count in found["counts"]]
    assert {("", "low", "high", "(other)"), ("f", *cells[:3]), ("m", *cells[3:6]), ("(other)", *cells[6:])} <= rows
    found, rows = _statistic(shared, {"name": "counts", "bins": 2}, columns=["sex", "income", "age"])
    names = [
        (s, i, a) for s in ("f", "m", "(other)") for i in ("low", "high", "(other)") for a in ("0 to 50", "50 to 100")
    ]
    assert {(*name, whole(count)) for name, count in zip(names, found["counts"], strict=True)} <= rows


def test_places_in_a_column_of_dates_are_dates(shared: Service) -> None:
    day = {"name": "day", "type": "number", "date": "days", "lower": "2024-01-01", "upper": "2024-12-31"}
    spec = SPEC | {"name": "days", "columns": [*SPEC["columns"], day]}
    file = "age,sex,income,day\n" + "".join(f"{20 + i % 60},f,low,2024-0{1 + i % 9}-11\n" for i in range(500))
    made = shared.upload(spec, file.encode()).json()["id"]
    shared.call("steward", "PUT", f"/v1/datasets/{made}/grants/the analyst")

    def told(interval: dict[str, float]) -> str:
        at, low, high = (date(1970, 1, 1) + timedelta(round(interval[end])) for end in ("value", "low", "high"))
        return f"{at} [{low}, {high}]"

    found, rows = _statistic(shared, {"name": "means"}, dataset=made, columns=["age", "day"])
    means = {one["column"]: one["mean"] for one in found["numbers"]}
    assert {("day", told(means["day"])), ("age", _told(means["age"]))} <= rows
    assert told(means["day"]).startswith("2024-")
    found, rows = _statistic(shared, {"name": "quantiles"}, dataset=made, columns=["day"])
    assert {("day", number(q["share"], 3), told(q["at"])) for q in found["columns"][0]["quantiles"]} <= rows
    found, rows = _statistic(shared, {"name": "profile"}, dataset=made)
    of = next(one for one in found["columns"] if one["column"]["name"] == "day")
    at = {quantile["share"]: quantile["at"] for quantile in of["quantiles"]}
    assert ("day", told(of["mean"]), _told(of["std"]), *(told(at[share]) for share in (0.5, 0.05, 0.95))) in rows


def test_means_quantiles_and_correlations(shared: Service) -> None:
    found, rows = _statistic(shared, {"name": "means"})
    shares = {each["column"]["name"]: list(map(_told, each["shares"])) for each in found["categories"]}
    assert ("age", _told(found["numbers"][0]["mean"])) in rows
    assert set(zip(("f", "m", "(other)"), shares["sex"], strict=True)) <= rows
    assert set(zip(("low", "high", "(other)"), shares["income"], strict=True)) <= rows
    found, rows = _statistic(shared, {"name": "quantiles"}, columns=["age"])
    assert {("age", number(q["share"], 3), _told(q["at"])) for q in found["columns"][0]["quantiles"]} <= rows
    weight = {"name": "weight", "type": "number", "lower": 0, "upper": 1}
    spec = SPEC | {"name": "two numbers", "columns": [*SPEC["columns"], weight]}
    file = "age,sex,income,weight\n" + "".join(f"{20 + i % 60},f,low,{i % 60 / 60}\n" for i in range(500))
    made = shared.upload(spec, file.encode()).json()["id"]
    shared.call("steward", "PUT", f"/v1/datasets/{made}/grants/the analyst")
    found, rows = _statistic(shared, {"name": "covariance"}, dataset=made, columns=["age", "weight"])
    assert len(found["columns"]) == 2
    assert {(name, *map(_told, row)) for name, row in zip(found["columns"], found["correlation"], strict=True)} <= rows


def test_groups_of_rows(shared: Service) -> None:
    where = [{"column": "age", "op": ">=", "value": 30}]
    privacy, by = {"epsilon": 0.9}, ["sex"]
    found, rows = _statistic(shared, {"name": "table1"}, by=by, columns=["age", "income"], where=where, privacy=privacy)
    groups = found["groups"]
    assert [group["levels"] for group in groups] == [["f"], ["m"], [None]]
    means = [_told(group["numbers"][0]["mean"]) for group in groups]
    low = [_told(group["categories"][0]["shares"] and group["categories"][0]["shares"][0]) for group in groups]
    assert {("", "f", "m", "(other)"), ("age, mean", *means), ("income = low", *low)} <= rows
    assert ("age", *(_told(group["numbers"][0]["difference"]) for group in groups[1:])) in rows


def test_a_profile(shared: Service) -> None:
    found, rows = _statistic(shared, {"name": "profile"})
    age, sex, income = found["columns"]
    at = {quantile["share"]: quantile["at"] for quantile in age["quantiles"]}
    assert ("age", *map(_told, (age["mean"], age["std"], at[0.5], at[0.05], at[0.95]))) in rows
    for told, names in ((sex, ("f", "m", "(other)")), (income, ("low", "high", "(other)"))):
        assert set(zip(names, map(whole, told["counts"]), strict=True)) <= rows


def test_the_best_of_several_models(shared: Service) -> None:
    candidates = [{"method": {"name": "output_perturbation", "steps": steps}} for steps in (2, 4)]
    document, rows = _released(
        shared, "tunings", JOB | {"dataset": shared.dataset(), "candidates": candidates}, "model"
    )
    best = document["tuning"]
    assert (f"candidate {best['candidate'] + 1}", number(best["score"], 3), number(best["noise_std"], 3)) in rows
    assert (f"{document['target']['name']}", "value") not in rows


@pytest.mark.parametrize("target", ["income", "age"])
def test_an_evaluation(shared: Service, target: str) -> None:
    spec = SPEC | {"name": f"kept out for {target}", "holdout": 0.2}
    made = shared.upload(spec, people(3000 + len(target))).json()
    shared.call("steward", "PUT", f"/v1/datasets/{made['id']}/grants/the analyst")
    document, _ = _released(shared, "jobs", JOB | {"dataset": made["id"], "target": target}, "model")
    job = document["privacy"]["job"] if "job" in document["privacy"] else document["job"]
    told, rows = _released(shared, f"models/{job}/evaluations", {"privacy": {"epsilon": 0.5}}, "evaluation")
    result = told["result"]
    names = (
        {"accuracy": "accuracy", "AUC": "auc"} if target == "income" else {"mean squared error": "mean_squared_error"}
    )
    for name, field in names.items():
        one = result[field]
        value, low, high, *noise = (number(one[end], 3) for end in ("value", "low", "high", "noise_low", "noise_high"))
        assert (name, f"{value} [{low}, {high}]", " to ".join(noise)) in rows
