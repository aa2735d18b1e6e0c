"""A job's page shows each number of its released document, under the same name."""

import re
from datetime import date, timedelta
from html import unescape
from itertools import pairwise
from typing import Any

import pytest

from app.pages.words import number
from tests.support.pages import visit
from tests.support.service import JOB, SPEC, STEWARD, Service, people

pytestmark = pytest.mark.slow

Row = tuple[str, ...]


def _released(service: Service, path: str, body: dict[str, Any], kind: str) -> tuple[dict[str, Any], set[Row]]:
    """Return the document that a request releases, and the rows of all tables on the page of its job."""
    job = service.done(body, path)
    document = service.read(f"jobs/{job['id']}/{kind}")
    page = visit(service, service.tokens["analyst"], f"/pages/jobs/{job['id']}").text
    table_rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in table_rows)
    texts = ([unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells)
    return document, {tuple(row[:-1] if row[-1:] == [""] else row) for row in texts}  # a bar is drawn, not written


def whole(count: float) -> str:
    """Return a noisy count as a page shows it."""
    return f"{round(count):,}"


def interval_text(interval: dict[str, Any] | None) -> str:
    if interval is None:
        return "–"
    value, low, high = (number(interval[end], 3) for end in ("value", "low", "high"))
    return value if interval["low"] == interval["high"] else f"{value} [{low}, {high}]"


def _statistic(service: Service, method: dict[str, Any], **changes: Any) -> tuple[Any, set[Row]]:
    body = {"dataset": service.dataset(), "method": method, "privacy": {"epsilon": 0.5}} | changes
    document, rows = _released(service, "statistics", body, "profile" if method["name"] == "profile" else "statistic")
    return document if method["name"] == "profile" else document["result"], rows


def test_counts_of_one_column_and_a_cross_table(shared: Service) -> None:
    result, rows = _statistic(shared, {"name": "counts", "bins": 3}, columns=["age"])
    edges = result["axes"][0]["edges"]
    parts = [f"{number(low, 3)} to {number(high, 3)}" for low, high in pairwise(edges)]
    assert {(part, whole(count)) for part, count in zip(parts, result["counts"], strict=True)} <= rows
    result, rows = _statistic(shared, {"name": "counts"}, columns=["sex", "income"])
    cells = [whole(count) for count in result["counts"]]
    assert {("", "low", "high", "(other)"), ("f", *cells[:3]), ("m", *cells[3:6]), ("(other)", *cells[6:])} <= rows
    result, rows = _statistic(shared, {"name": "counts", "bins": 2}, columns=["sex", "income", "age"])
    names = [
        (s, i, a) for s in ("f", "m", "(other)") for i in ("low", "high", "(other)") for a in ("0 to 50", "50 to 100")
    ]
    assert {(*name, whole(count)) for name, count in zip(names, result["counts"], strict=True)} <= rows


def test_places_in_a_column_of_dates_are_dates(shared: Service) -> None:
    day = {"name": "day", "type": "number", "date": "days", "lower": "2024-01-01", "upper": "2024-12-31"}
    spec = SPEC | {"name": "days", "columns": [*SPEC["columns"], day]}
    file = "age,sex,income,day\n" + "".join(f"{20 + i % 60},f,low,2024-0{1 + i % 9}-11\n" for i in range(500))
    dataset = shared.upload(spec, file.encode()).json()["id"]
    shared.call("steward", "PUT", f"/v1/datasets/{dataset}/grants/the analyst")

    def dated(interval: dict[str, float]) -> str:
        at, low, high = (date(1970, 1, 1) + timedelta(round(interval[end])) for end in ("value", "low", "high"))
        return f"{at} [{low}, {high}]"

    result, rows = _statistic(shared, {"name": "means"}, dataset=dataset, columns=["age", "day"])
    means = {column["column"]: column["mean"] for column in result["numbers"]}
    assert {("day", dated(means["day"])), ("age", interval_text(means["age"]))} <= rows
    assert dated(means["day"]).startswith("2024-")
    result, rows = _statistic(shared, {"name": "quantiles"}, dataset=dataset, columns=["day"])
    assert {("day", number(q["share"], 3), dated(q["at"])) for q in result["columns"][0]["quantiles"]} <= rows
    result, rows = _statistic(shared, {"name": "profile"}, dataset=dataset)
    day_column = next(column for column in result["columns"] if column["column"]["name"] == "day")
    at = {quantile["share"]: quantile["at"] for quantile in day_column["quantiles"]}
    assert (
        "day",
        dated(day_column["mean"]),
        interval_text(day_column["std"]),
        *(dated(at[share]) for share in (0.5, 0.05, 0.95)),
    ) in rows


def test_means_quantiles_and_correlations(shared: Service) -> None:
    result, rows = _statistic(shared, {"name": "means"})
    shares = {each["column"]["name"]: list(map(interval_text, each["shares"])) for each in result["categories"]}
    assert ("age", interval_text(result["numbers"][0]["mean"])) in rows
    assert set(zip(("f", "m", "(other)"), shares["sex"], strict=True)) <= rows
    assert set(zip(("low", "high", "(other)"), shares["income"], strict=True)) <= rows
    result, rows = _statistic(shared, {"name": "quantiles"}, columns=["age"])
    assert {("age", number(q["share"], 3), interval_text(q["at"])) for q in result["columns"][0]["quantiles"]} <= rows
    weight = {"name": "weight", "type": "number", "lower": 0, "upper": 1}
    spec = SPEC | {"name": "two numbers", "columns": [*SPEC["columns"], weight]}
    file = "age,sex,income,weight\n" + "".join(f"{20 + i % 60},f,low,{i % 60 / 60}\n" for i in range(500))
    dataset = shared.upload(spec, file.encode()).json()["id"]
    shared.call("steward", "PUT", f"/v1/datasets/{dataset}/grants/the analyst")
    result, rows = _statistic(shared, {"name": "covariance"}, dataset=dataset, columns=["age", "weight"])
    assert len(result["columns"]) == 2
    assert {
        (name, *map(interval_text, row)) for name, row in zip(result["columns"], result["correlation"], strict=True)
    } <= rows


def test_groups_of_rows(shared: Service) -> None:
    where = [{"column": "age", "op": ">=", "value": 30}]
    privacy, by = {"epsilon": 0.9}, ["sex"]
    result, rows = _statistic(
        shared, {"name": "table1"}, by=by, columns=["age", "income"], where=where, privacy=privacy
    )
    groups = result["groups"]
    assert [group["levels"] for group in groups] == [["f"], ["m"], [None]]
    means = [interval_text(group["numbers"][0]["mean"]) for group in groups]
    low = [interval_text(group["categories"][0]["shares"] and group["categories"][0]["shares"][0]) for group in groups]
    assert {("", "f", "m", "(other)"), ("age, mean", *means), ("income = low", *low)} <= rows
    assert ("age", *(interval_text(group["numbers"][0]["difference"]) for group in groups[1:])) in rows


def test_a_profile(shared: Service) -> None:
    result, rows = _statistic(shared, {"name": "profile"})
    age, sex, income = result["columns"]
    at = {quantile["share"]: quantile["at"] for quantile in age["quantiles"]}
    assert ("age", *map(interval_text, (age["mean"], age["std"], at[0.5], at[0.05], at[0.95]))) in rows
    for histogram, names in ((sex, ("f", "m", "(other)")), (income, ("low", "high", "(other)"))):
        assert set(zip(names, map(whole, histogram["counts"]), strict=True)) <= rows


def test_the_best_of_several_models(shared: Service) -> None:
    candidates = [{"method": {"name": "output_perturbation", "steps": steps}} for steps in (2, 4)]
    document, rows = _released(
        shared, "tunings", JOB | {"dataset": shared.dataset(), "candidates": candidates}, "model"
    )
    best = document["tuning"]
    assert (f"candidate {best['candidate'] + 1}", number(best["score"], 3), number(best["noise_std"], 3)) in rows
    page = visit(shared, STEWARD, f"/pages/jobs/{document['job']}").text
    assert f"<dt>Best run</dt><dd>candidate {best['candidate'] + 1}: <code>output_perturbation</code></dd>" in page
    assert (f"{document['target']['name']}", "value") not in rows


@pytest.mark.parametrize("target", ["income", "age"])
def test_an_evaluation(shared: Service, target: str) -> None:
    spec = SPEC | {"name": f"kept out for {target}", "holdout": 0.2}
    dataset = shared.upload(spec, people(3000 + len(target))).json()
    shared.call("steward", "PUT", f"/v1/datasets/{dataset['id']}/grants/the analyst")
    document, _ = _released(shared, "jobs", JOB | {"dataset": dataset["id"], "target": target}, "model")
    job = document["privacy"]["job"] if "job" in document["privacy"] else document["job"]
    evaluation, rows = _released(shared, f"models/{job}/evaluations", {"privacy": {"epsilon": 0.5}}, "evaluation")
    result = evaluation["result"]
    names = (
        {"accuracy": "accuracy", "AUC": "auc"} if target == "income" else {"mean squared error": "mean_squared_error"}
    )
    for name, field in names.items():
        interval = result[field]
        value, low, high, *noise = (
            number(interval[end], 3) for end in ("value", "low", "high", "noise_low", "noise_high")
        )
        assert (name, f"{value} [{low}, {high}]", " to ".join(noise)) in rows
