"""A dataset's neighbors are its steward's choice, for good: told everywhere, priced by, and found in its receipts."""

import copy
import math
from typing import Any

import pytest

from accounting.errors import ReceiptInvalid
from accounting.records.receipt import recompute, verify
from app.sources.spec import JobSpec
from purse.wire.neighbors import MEANING, Elsewhere, elsewhere
from tests.support.service import JOB, SPEC, Service, people
from tests.support.world import World, check_books

GD = JOB | {"method": {"name": "dp_gd", "steps": 3}, "preparation": {"name": "declared"}}
ZERO: dict[str, Any] = {"neighbors": "zero_out"}


def _quote(service: Service, dataset: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = service.call("analyst", "POST", "/v1/quotes", json=body | {"dataset": dataset})
    assert answer.status_code == 200, answer.text
    quote: dict[str, Any] = answer.json()
    return quote


def _worth(document: dict[str, Any]) -> None:
    """Check the equivalent under replace_one, which takes two zero_out steps."""
    assert document["neighbors"] == "zero_out"
    assert document["meaning"] == MEANING["zero_out"]
    equivalent, epsilon = document["elsewhere"], document["epsilon"]
    assert equivalent["neighbors"] == "replace_one"
    assert equivalent["epsilon"] == 2 * epsilon
    assert equivalent["delta"] == pytest.approx((1 + math.exp(epsilon)) * document["delta"])


@pytest.mark.slow
def test_a_zero_out_dataset_from_its_ledger_to_its_receipt(service: Service) -> None:
    zeroed, replaced = service.dataset(**ZERO), service.dataset()
    for path in (f"/v1/datasets/{zeroed}/budget", f"/v1/datasets/{zeroed}"):
        document = service.call("analyst", "GET", path).json()
        _worth(document.get("budget", document))
    replaced_budget = service.budget(replaced)
    equivalent = {"neighbors": "zero_out", "epsilon": replaced_budget["epsilon"], "delta": replaced_budget["delta"]}
    assert (replaced_budget["neighbors"], replaced_budget["elsewhere"]) == ("replace_one", equivalent)
    assert service.entries(zeroed)[0]["body"]["neighbors"] == "zero_out"

    quotes = {dataset: _quote(service, dataset, GD) for dataset in (zeroed, replaced)}
    _worth(quotes[zeroed])
    zeroed_query, replaced_query = (quotes[dataset]["queries"][0] for dataset in (zeroed, replaced))
    assert zeroed_query["noise_multiplier"] == pytest.approx(replaced_query["noise_multiplier"] / 2, rel=1e-6)

    job = service.done(GD | {"dataset": zeroed})
    _worth(job["quote"])
    model = service.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").json()
    assert model["privacy"]["neighbors"] == "zero_out"
    receipt = service.receipt(job["id"])
    assert receipt["receipt"]["neighbors"] == "zero_out"
    check_books(service.database, service.app.state.services.keys.jwks())

    keys = service.call(None, "GET", "/v1/keys").json()
    assert verify(receipt, keys).holds
    forged = copy.deepcopy(receipt)
    forged["receipt"]["neighbors"] = "replace_one"
    assert not verify(forged, keys).signature
    assert recompute(forged["receipt"]).epsilon > 1.8 * recompute(receipt["receipt"]).epsilon
    with pytest.raises(ReceiptInvalid):
        recompute(receipt["receipt"] | {"neighbors": "add_remove"})


@pytest.mark.slow
def test_a_profile_states_its_neighbors(service: Service) -> None:
    dataset = service.dataset(**ZERO)
    request: dict[str, Any] = {"method": {"name": "profile", "bins": 4}, "privacy": {"epsilon": 0.3}}
    profile = service.read(f"jobs/{service.done(request | {'dataset': dataset})['id']}/profile")
    assert profile["privacy"]["neighbors"] == "zero_out"
    reused = GD | {"preparation": {"name": "profile"}}
    assert _quote(service, dataset, reused)["neighbors"] == "zero_out"


def test_the_relation_is_one_of_two_and_never_changes(service: Service) -> None:
    for wrong in ("add_remove", "", None, 1, ["zero_out"]):
        refused = service.upload(SPEC | {"neighbors": wrong})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    dataset = service.dataset(**ZERO)
    changed = service.call("steward", "PATCH", f"/v1/datasets/{dataset}", json={"neighbors": "replace_one"})
    assert changed.status_code == 422
    assert service.call("steward", "GET", f"/v1/datasets/{dataset}").json()["budget"]["neighbors"] == "zero_out"


def test_a_family_has_one_relation(service: Service) -> None:
    service.dataset(family="survey", **ZERO)
    refused = service.upload(SPEC | {"name": "next month", "family": "survey"}, people(333))
    assert (refused.status_code, refused.json()["code"]) == (409, "family_mismatch")
    assert "zero_out" in refused.json()["detail"]
    assert service.upload(SPEC | {"name": "next month", "family": "survey"} | ZERO, people(333)).status_code == 201


def test_a_job_holds_a_plan_of_its_problems_neighbors(tmp_path: Any) -> None:
    world = World.at(tmp_path)
    priced = world.priced(world.dataset(**ZERO))
    text = priced.spec.to_json()
    assert JobSpec.model_validate_json(text) == priced.spec
    for forged in (
        text.replace('"relation":"zero_out"', '"relation":"replace_one"'),
        text.replace('"neighbors":"zero_out",', ""),
    ):
        assert forged != text
        with pytest.raises(ValueError, match="neighbors"):
            JobSpec.model_validate_json(forged)


def test_an_equivalent_without_a_guarantee_is_not_stated() -> None:
    epsilon, delta = 13.0, 1e-6
    guarantee = elsewhere("zero_out", epsilon, delta)
    assert guarantee == Elsewhere(neighbors="replace_one", epsilon=26.0, delta=(1 + math.exp(13)) * 1e-6)
    assert elsewhere("zero_out", 14.0, delta) is None
    assert elsewhere("zero_out", 100.0, 0.0) == Elsewhere(neighbors="replace_one", epsilon=200.0, delta=0.0)
    assert elsewhere("replace_one", 14.0, delta) == Elsewhere(neighbors="zero_out", epsilon=14.0, delta=delta)
