"""Datasets of one family share one budget and one ledger; nobody learns of the others by it."""

import json
from typing import Any

import pytest

from tests.support.service import JOB, SPEC, Service, people

GD = JOB | {"method": {"name": "dp_gd", "steps": 3}, "preparation": {"name": "declared"}}
FAMILY = {"family": "survey-2026"}


def _request(dataset: str, epsilon: float) -> dict[str, Any]:
    return GD | {"dataset": dataset, "privacy": {"epsilon": epsilon}}


@pytest.mark.slow
def test_a_second_file_has_no_new_budget(service: Service) -> None:
    first, second, alone = service.dataset(**FAMILY), service.dataset(**FAMILY), service.dataset()
    service.done(_request(first, 1.5))
    assert service.budget(first) == service.budget(second) != service.budget(alone)
    refused = service.call("analyst", "POST", "/v1/jobs", json=_request(second, 3.0)).json()
    assert refused["code"] == "budget_exhausted"
    assert refused["remaining"] == service.budget(first)["remaining"]
    service.done(_request(second, 0.5))
    assert service.budget(first)["jobs"] == 2
    assert service.budget(alone)["jobs"] == 0
    books = [service.entries(dataset) for dataset in (first, second)]
    assert books[0] == books[1]
    assert [entry["kind"] for entry in books[0][:3]] == ["opened", "joined", "charged"]
    assert books[0][0]["body"]["family"] == "survey-2026"
    steward = service.call("steward", "GET", "/v1/tokens").json()["items"][-1]["name"]
    assert books[0][1]["body"].items() >= {"dataset": second, "by": steward}.items()


@pytest.mark.slow
def test_an_analyst_of_one_member_reads_nothing_of_its_family(service: Service) -> None:
    first, second = service.dataset(**FAMILY), service.dataset(**FAMILY)
    job = service.done(_request(first, 0.5))
    rows = [service.call("steward", "GET", f"/v1/datasets/{d}").json()["rows"] for d in (first, second)]
    paths = [f"/v1/datasets/{first}", f"/v1/datasets/{first}/budget"]
    paths += [f"/v1/jobs/{job['id']}{suffix}" for suffix in ("", "/model", "/receipt")]
    text = "".join(service.call("analyst", "GET", path).text for path in paths)
    names = [service.call("steward", "GET", f"/v1/datasets/{d}").json()["name"] for d in (first, second)]
    assert names[0] in text
    assert str(rows[0]) in text
    assert all(foreign not in text for foreign in (names[1], second, "survey-2026", f'"rows":{rows[1]}'))


def test_a_family_has_one_budget(service: Service) -> None:
    first = service.dataset(**FAMILY)
    state_before = service.durable(first)
    for budget in ({"epsilon": 4.0}, {"delta": 1e-7}, {"filter": "gdp"}, {"slack": 1e-7}):
        response = service.upload(SPEC | {"name": "more", "budget": SPEC["budget"] | budget} | FAMILY, people(99))
        assert (response.status_code, response.json()["code"]) == (409, "family_mismatch")
        assert "'gdp_rdp'" in response.json()["detail"]
    assert service.durable(first) == state_before


@pytest.mark.slow
def test_the_same_values_are_registered_again_in_their_own_family_alone(service: Service) -> None:
    def upload(name: str, **changes: str) -> int:
        return service.upload(SPEC | {"name": name} | changes).status_code

    assert upload("first", **FAMILY) == 201
    assert upload("again", **FAMILY) == 201
    assert upload("first", **FAMILY) == 409
    assert upload("alone") == 409
    assert upload("elsewhere", family="another") == 409
    file = people(77)
    assert service.upload(SPEC | {"name": "a lone one"}, file).status_code == 201
    assert service.upload(SPEC | {"name": "not alone"} | FAMILY, file).status_code == 409


@pytest.mark.parametrize("family", ["", "a\nb", "x" * 201, 5, ["survey"]])
def test_a_family_is_a_name(shared: Service, family: object) -> None:
    refused = shared.upload(json.dumps(SPEC | {"name": "n", "family": family}))
    assert (refused.status_code, refused.json()["violations"][0]["where"]) == (422, "spec.family")
