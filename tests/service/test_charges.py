"""Results computed elsewhere are charged once, correctly, and to the ledger of the people whom they concern."""

from typing import Any

import pytest

from accounting.filter import UNIT
from app.ledger import audit
from tests.support.service import JOB, Service

GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 10.0}
GD = JOB | {"method": {"name": "dp_gd", "steps": 3}, "preparation": {"name": "declared"}}


def _charge(service: Service, dataset: str, event: dict[str, Any], label: str = "report", **more: Any) -> Any:
    body = {"label": label, "event": event} | more
    return service.call("steward", "POST", f"/v1/datasets/{dataset}/charges", json=body)


def _many(count: int) -> dict[str, Any]:
    return {"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": count}


@pytest.mark.slow
def test_an_external_charge_is_an_entry_and_spends_the_familys_budget(service: Service) -> None:
    dataset, sibling = service.dataset(family="people"), service.dataset(family="people")
    response = _charge(service, dataset, GAUSSIAN)
    assert response.status_code == 201, response.text
    charge = response.json()
    assert (charge["dataset"], charge["label"], charge["event"], charge["exceeds"]) == (
        dataset,
        "report",
        GAUSSIAN,
        False,
    )
    assert charge["budget"] == service.budget(sibling)
    assert charge["budget"]["jobs"] == 1
    assert 0 < charge["budget"]["spent"]["epsilon"] < 3.0
    assert [spend["analyst"] for spend in charge["budget"]["analysts"]] == ["bootstrap"]
    [*_, entry] = service.entries(dataset)
    assert (entry["kind"], entry["sequence"], entry["hash"]) == ("external", charge["sequence"], charge["hash"])
    assert entry["body"].items() >= {"by": "bootstrap", "label": "report", "event": GAUSSIAN}.items()
    if charge["budget"]["filter"] != "rdp":  # mu^2 = (2/10)^2, exactly
        assert 0 <= int(entry["body"]["cost"][0]) - UNIT * 4 // 100 < UNIT // 10**6
    audit.refuse_unsound(service.database)


def test_the_same_label_is_the_same_charge(service: Service) -> None:
    dataset = service.dataset()
    first, again = _charge(service, dataset, GAUSSIAN), _charge(service, dataset, GAUSSIAN)
    assert first.json() == again.json()
    state_before = service.durable(dataset)
    refused = _charge(service, dataset, GAUSSIAN | {"noise_multiplier": 11.0})
    assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict")
    assert service.durable(dataset) == state_before
    assert _charge(service, dataset, GAUSSIAN, "another").json()["budget"]["jobs"] == 2


def test_a_label_of_one_dataset_charges_no_other_dataset_of_its_family(service: Service) -> None:
    """Both releases happened. If the second one were taken for the first, it would be free."""
    dataset, sibling = service.dataset(family="people"), service.dataset(family="people")
    assert _charge(service, dataset, GAUSSIAN).status_code == 201
    state_before = service.durable(sibling)
    refused = _charge(service, sibling, GAUSSIAN)
    assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict")
    assert service.durable(sibling) == state_before
    charge = _charge(service, sibling, GAUSSIAN, "another").json()
    assert (charge["dataset"], charge["budget"]["jobs"]) == (sibling, 2)
    assert _charge(service, sibling, GAUSSIAN, "another").json() == charge


@pytest.mark.parametrize("family", [None, "people"])
def test_a_label_of_a_holdout_set_charges_no_release_about_its_dataset_and_back(
    service: Service, family: str | None
) -> None:
    """Each release about the holdout set's records costs, also if the other one has the same label."""
    dataset = service.dataset(holdout=0.2, family=family)
    holdout = service.call("steward", "GET", f"/v1/datasets/{dataset}").json()["holdout"]
    for label, first, second in (("inner", holdout, dataset), ("outer", dataset, holdout)):
        charge = _charge(service, first, GAUSSIAN, label)
        assert charge.status_code == 201
        state_before = service.durable(dataset), service.durable(holdout)
        refused = _charge(service, second, GAUSSIAN, label)
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict")
        assert _charge(service, first, GAUSSIAN, label).json() == charge.json()
        assert (service.durable(dataset), service.durable(holdout)) == state_before


def test_a_sampled_event_is_charged_if_it_fits_the_number_of_records(service: Service) -> None:
    """A batch larger than the dataset would be charged less than it costs."""
    dataset = service.dataset()
    drawn = {"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 50, "sample_size": 5, "event": GAUSSIAN}
    slots = {"type": "RandomAllocationDpEvent", "rate": 1.0, "slots": 5, "form": "ordered", "event": GAUSSIAN}
    sampled = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.5, "event": GAUSSIAN}
    state_before = service.durable(dataset)
    for misfit in (
        drawn | {"source_dataset_size": 10**6},
        slots | {"slots": 10_000},
        sampled | {"sampling_probability": 1e-6},
    ):
        refused = _charge(service, dataset, misfit)
        assert (refused.status_code, refused.json()["code"]) == (422, "out_of_range")
    assert service.durable(dataset) == state_before
    for label, event in (("drawn", drawn), ("slots", slots), ("sampled", sampled)):
        assert _charge(service, dataset, event, label).json()["event"] == event
    audit.refuse_unsound(service.database)


@pytest.mark.slow
def test_a_charge_beyond_the_budget_is_recorded_only_on_demand_and_freezes(service: Service) -> None:
    dataset = service.dataset()
    state_before = service.durable(dataset)
    refused = _charge(service, dataset, _many(200))
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exhausted")
    assert refused.json()["remaining"] == {"epsilon": 3.0, "delta": 1e-6}
    assert service.durable(dataset) == state_before
    budget = _charge(service, dataset, _many(200), exceeds=True).json()["budget"]
    assert (budget["exceeded"], budget["frozen"], budget["remaining"]["epsilon"]) == (True, True, 0.0)
    assert budget["spent"]["epsilon"] > 3.0
    job = GD | {"dataset": dataset}
    refused = service.call("analyst", "POST", "/v1/jobs", json=job).json()
    assert refused["code"] == "dataset_frozen"
    assert "outside this service" in refused["detail"]
    service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"frozen": False})
    assert service.call("analyst", "POST", "/v1/jobs", json=job).json()["code"] == "budget_exhausted"
    larger = {"budget": {"epsilon": 100.0, "delta": 1e-6}}
    assert not service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json=larger).json()["budget"]["exceeded"]
    assert service.call("analyst", "POST", "/v1/jobs", json=job).json()["state"] == "queued"
    assert service.call("steward", "DELETE", f"/v1/datasets/{dataset}").json()["data"] == "deleted"
    audit.refuse_unsound(service.database)


@pytest.mark.parametrize(
    ("event", "changes", "code"),
    [
        (GAUSSIAN | {"noise_multiplier": "ten"}, {}, "invalid_request"),
        (GAUSSIAN | {"noise_multiplier": 0.0}, {}, "out_of_range"),
        ({"type": "NonPrivateDpEvent"}, {}, "invalid_request"),
        ({"type": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 1e-6}, {}, "out_of_range"),
        (GAUSSIAN, {"label": "a\nb"}, "invalid_request"),
        (GAUSSIAN, {"seed": 1}, "invalid_request"),
        (GAUSSIAN | {"noise_multiplier": 1e-3}, {"exceeds": True}, "out_of_range"),
    ],
)
def test_only_events_are_charged(service: Service, event: dict[str, Any], changes: Any, code: str) -> None:
    dataset = service.dataset(budget={"epsilon": 3.0, "delta": 1e-6, "filter": "gdp"})
    state_before = service.durable(dataset)
    refused = _charge(service, dataset, event if code != "out_of_range" or not changes else _huge(event), **changes)
    assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert service.durable(dataset) == state_before


def _huge(event: dict[str, Any]) -> dict[str, Any]:
    return {"type": "SelfComposedDpEvent", "event": event, "count": 10**9}


def test_a_pure_ledger_accepts_only_pure_events(service: Service) -> None:
    dataset = service.dataset(budget={"epsilon": 1.0, "delta": 0.0, "filter": "pure"})
    refused = _charge(service, dataset, GAUSSIAN)
    assert (refused.status_code, refused.json()["code"]) == (422, "method_filter_mismatch")
    response = _charge(service, dataset, {"type": "EpsilonDeltaDpEvent", "epsilon": 0.25})
    assert response.json()["budget"]["spent"]["epsilon"] == pytest.approx(0.25, rel=1e-9)


CALIBRATION = {"mechanism": {"name": "gaussian"}, "count": 100, "epsilon": 1.0, "delta": 1e-6}


def test_the_calculator_gives_noise_that_its_own_charge_keeps(shared: Service) -> None:
    for role in ("analyst", "auditor", "steward"):
        answer = shared.call(role, "POST", "/v1/calibrations", json=CALIBRATION)
        assert answer.status_code == 200, answer.text
    calibration = answer.json()
    half = shared.call("auditor", "POST", "/v1/calibrations", json=CALIBRATION | {"neighbors": "zero_out"}).json()
    assert half["noise_multiplier"] == pytest.approx(calibration["noise_multiplier"] / 2, rel=1e-6)
    assert calibration["epsilon"] <= 1.0
    assert calibration["accountant"] == "exact_gaussian"
    event = {"type": "GaussianDpEvent", "noise_multiplier": calibration["noise_multiplier"]}
    assert calibration["event"] == {"type": "SelfComposedDpEvent", "count": 100, "event": event}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mechanism": {"name": "exponential"}}, "invalid_request"),
        ({"mechanism": {"name": "poisson_gaussian", "rate": 0.0}}, "out_of_range"),
        ({"mechanism": {"name": "poisson_gaussian"}}, "invalid_request"),
        ({"count": 0}, "out_of_range"),
        ({"epsilon": 0.0}, "out_of_range"),
        ({"delta": 0.0}, "unsupported_combination"),
        ({"neighbors": "add_remove"}, "invalid_request"),
        ({"seed": 1}, "invalid_request"),
    ],
)
def test_the_calculator_refuses_impossible_requests(shared: Service, changes: dict[str, Any], code: str) -> None:
    answer = shared.call("analyst", "POST", "/v1/calibrations", json=CALIBRATION | changes)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
