"""A part kept out, over HTTP: models are evaluated on it, on its own budget, and nothing else is ever asked of it."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.datasets import store
from app.http.errors import ApiError
from app.identity.store import Principal
from app.results.intervals import WIDE
from app.sources import holdout
from app.sources.matrix import filled_slots, open_coded
from tests.support.service import JOB, SPEC, Service, people
from tests.support.world import check_books

pytestmark = pytest.mark.slow
N = 500
PRICE = {"privacy": {"epsilon": 0.5}}


@pytest.fixture
def service(shared: Service) -> Service:
    return shared


def call(service: Service, method: str, path: str, role: str = "analyst", **sent: Any) -> Any:
    return service.call(role, method, f"/v1/{path}", **sent)


def registered(service: Service, name: str, rows: int = N, file: bytes | None = None, **changes: Any) -> Any:
    spec = SPEC | {"name": name, "holdout": 0.2} | changes
    return service.registered(spec, people(rows) if file is None else file)


def trained(service: Service, dataset: str, **changes: Any) -> str:
    return str(service.done(JOB | {"dataset": dataset} | changes)["id"])


def evaluated(service: Service, model: str, **changes: Any) -> Any:
    job = service.done(PRICE | changes, f"models/{model}/evaluations")
    assert job["kind"] == "evaluation"
    return job


def test_a_model_is_quoted_evaluated_and_receipted_on_the_holdout_set(service: Service) -> None:
    registration = registered(service, "hospital")
    part = service.read(f"datasets/{registration['holdout']}")
    assert (registration["rows"], part["rows"], part["holdout_of"]) == (N - N // 5, N // 5, registration["id"])
    assert (part["name"], registration["holdout_of"], part["holdout"]) == ("hospital (holdout)", None, None)
    assert part["budget"]["epsilon"] == registration["budget"]["epsilon"]
    model = trained(service, registration["id"])
    budget_before = service.budget(registration["id"])
    price = call(service, "POST", "quotes", json=PRICE | {"model": model}).json()
    assert (price["dataset"], price["rows"], [q["name"] for q in price["queries"]]) == (part["id"], N // 5, ["scores"])
    job = evaluated(service, model)
    assert job["quote"] == price
    assert service.budget(registration["id"]) == budget_before
    assert service.budget(part["id"])["remaining"] == price["remaining_after"]
    response = call(service, "GET", f"jobs/{job['id']}/evaluation")
    evaluation, result = response.json(), response.json()["result"]
    assert (evaluation["dataset"], evaluation["model"], result["name"]) == (part["id"], model, "two_classes")
    assert evaluation["model_sha256"] == hashlib.sha256(call(service, "GET", f"jobs/{model}/model").content).hexdigest()
    assert np.array(result["counts"]).shape == (2, 40)
    assert 0 <= result["auc"]["low"] <= result["auc"]["value"] <= result["auc"]["high"] <= 1
    widths = {each["answer"]: each for each in price["interval_width"]}
    accuracy = result["accuracy"]["high"] - result["accuracy"]["low"]
    assert widths["count"] == {
        "answer": "count", "column": None, "width": pytest.approx(2 * WIDE * evaluation["noise_std"]), "basis": "exact"
    }  # fmt: skip
    assert widths["accuracy"]["basis"] == "worst_case"
    assert accuracy <= widths["accuracy"]["width"] * (1 + 1e-9)
    assert {"auc", "log_loss", "true_positive_rate", "false_positive_rate"} < widths.keys()
    receipt = service.receipt(job["id"])["receipt"]
    assert receipt["model_sha256"] == hashlib.sha256(response.content).hexdigest()
    assert receipt["method"] == {
        "name": "evaluation", "bins": 40, "clip": 0.5, "model": model, "sha256": evaluation["model_sha256"]
    }  # fmt: skip
    for kind in ("model", "statistic", "profile"):
        assert call(service, "GET", f"jobs/{job['id']}/{kind}").status_code == 404
    check_books(service.database, service.app.state.services.keys.jwks())


def test_models_of_numbers_and_of_many_classes(service: Service) -> None:
    columns = [*SPEC["columns"][:2], {"name": "income", "type": "category", "categories": ["low", "high", "none"]}]
    registration = registered(service, "kinds", N + 1, columns=columns)
    number = evaluated(service, trained(service, registration["id"], target="age"), bins=10, clip=1.0)
    residuals = call(service, "GET", f"jobs/{number['id']}/evaluation").json()["result"]
    assert (residuals["name"], residuals["edges"][0], residuals["edges"][-1], len(residuals["counts"])) == (
        "residuals",
        -50,
        50,
        10,
    )
    assert 0 <= residuals["mean_absolute_error"]["low"] <= residuals["mean_absolute_error"]["high"] <= 50
    many = evaluated(service, trained(service, registration["id"]))
    classes = call(service, "GET", f"jobs/{many['id']}/evaluation").json()["result"]
    assert (classes["name"], np.array(classes["counts"]).shape, len(classes["recall"])) == ("many_classes", (3, 3), 3)


def test_the_best_of_several_runs_is_evaluated_at_no_cost_for_its_tuning(
    service: Service,
) -> None:
    registration = registered(service, "tuned", N + 8)
    candidates = [{"method": {"name": "output_perturbation", "steps": steps}} for steps in (2, 4)]
    body = {"dataset": registration["id"], "target": "income", "candidates": candidates, "privacy": {"epsilon": 0.5}}
    job = service.done(body, "tunings")
    budget_before = service.budget(registration["id"])
    price = call(service, "POST", "quotes", json=PRICE | {"model": job["id"]}).json()
    evaluation = call(service, "GET", f"jobs/{evaluated(service, job['id'])['id']}/evaluation").json()
    chosen = call(service, "GET", f"jobs/{job['id']}/model")
    assert chosen.json()["tuning"]["runs"] == 4
    assert (evaluation["model"], evaluation["dataset"]) == (job["id"], registration["holdout"])
    assert evaluation["model_sha256"] == hashlib.sha256(chosen.content).hexdigest()
    assert np.array(evaluation["result"]["counts"]).shape == (2, 40)
    assert service.budget(registration["id"]) == budget_before
    assert service.budget(registration["holdout"])["remaining"] == price["remaining_after"]


def test_only_evaluations_use_the_holdout_and_evaluations_use_nothing_else(service: Service) -> None:
    registration, plain = registered(service, "asked", N + 2), service.dataset()
    for path, body in (
        ("jobs", JOB),
        ("quotes", JOB),
        ("statistics", {"method": {"name": "means"}, "privacy": {"epsilon": 0.1}}),
        ("statistics", {"method": {"name": "profile"}, "privacy": {"epsilon": 0.1}}),
    ):
        refused = call(service, "POST", path, json=body | {"dataset": registration["holdout"]})
        assert (refused.status_code, refused.json()["code"]) == (422, "unsupported_combination")
    model = trained(service, plain)
    refused = call(service, "POST", f"models/{model}/evaluations", json=PRICE)
    assert (refused.status_code, refused.json()["code"]) == (422, "unsupported_combination")
    assert call(service, "POST", "models/job_none/evaluations", json=PRICE).status_code == 404
    for wrong in ({"bins": 3}, {"clip": 0.0}, {"weights": [1.0]}, {"seed": 1}):
        model = trained(service, registration["id"]) if wrong == {"bins": 3} else model
        assert call(service, "POST", f"models/{model}/evaluations", json=PRICE | wrong).status_code == 422
    service.analyst("stranger", registration["id"])
    assert call(service, "POST", f"models/{model}/evaluations", "stranger", json=PRICE).status_code == 404


def test_a_grant_covers_the_dataset_and_its_holdout(service: Service) -> None:
    registration = registered(service, "granted", N + 3)
    model = trained(service, registration["id"])
    name = "the analyst"
    assert call(service, "DELETE", f"datasets/{registration['id']}/grants/{name}", "steward").status_code == 204
    assert call(service, "GET", f"datasets/{registration['holdout']}").status_code == 404
    assert call(service, "POST", f"models/{model}/evaluations", json=PRICE).status_code == 404
    for method in ("PUT", "DELETE"):
        assert call(service, method, f"datasets/{registration['holdout']}/grants/{name}", "steward").status_code == 422
    group = Principal("idn_nobody", "nobody", "analyst", datasets=("granted",))
    with service.database.read() as connection:  # by the name of a group at sign-on, too
        assert store.visible(connection, registration["holdout"], group).id == registration["holdout"]
        with pytest.raises(ApiError, match="not_found"):
            store.visible(connection, registration["holdout"], replace(group, datasets=("grant",)))
    service.grant(registration["id"], name)
    assert call(service, "GET", f"datasets/{registration['holdout']}").status_code == 200


def test_a_freeze_a_charge_or_a_grant_applies_to_dataset_and_holdout(service: Service) -> None:
    registration = registered(service, "stopped", N + 4)
    model = trained(service, registration["id"])
    for part, frozen, status in (("id", True, 409), ("id", False, 409), ("holdout", False, 202)):
        assert (
            call(service, "PATCH", f"datasets/{registration[part]}", "steward", json={"frozen": frozen}).status_code
            == 200
        )
        assert call(service, "POST", f"models/{model}/evaluations", json=PRICE).status_code == status
    event = {"type": "GaussianDpEvent", "noise_multiplier": 20.0}
    outside = {"label": "elsewhere", "event": event}
    budget_before = service.budget(registration["holdout"])
    charged = call(service, "POST", f"datasets/{registration['id']}/charges", "steward", json=outside)
    assert charged.status_code == 201, charged.text
    again = call(service, "POST", f"datasets/{registration['id']}/charges", "steward", json=outside)
    assert again.json() == charged.json()
    assert service.budget(registration["holdout"])["jobs"] == budget_before["jobs"] + 1


def test_values_of_either_part_cannot_be_registered_again_after_an_answer(service: Service) -> None:
    """Otherwise the same file could be registered again, with a new budget for records that have spent one."""
    file = people(N + 5)
    registration = registered(service, "again", file=file)
    assert call(service, "DELETE", f"datasets/{registration['id']}", "steward").json()["data"] == "withdrawn"
    assert call(service, "GET", f"datasets/{registration['holdout']}", "steward").status_code == 404
    registration = registered(service, "again", file=file)
    outside = {"label": "one", "event": {"type": "GaussianDpEvent", "noise_multiplier": 20.0}}
    assert (
        call(service, "POST", f"datasets/{registration['holdout']}/charges", "steward", json=outside).status_code == 201
    )
    assert service.budget(registration["id"])["jobs"] == 0
    assert call(service, "DELETE", f"datasets/{registration['id']}", "steward").json()["data"] == "deleted"
    assert call(service, "GET", f"datasets/{registration['holdout']}", "steward").json()["data"] == "deleted"
    for spec in (SPEC, SPEC | {"holdout": 0.5}):
        refused = service.upload(spec | {"name": "anew"}, file)
        assert (refused.status_code, refused.json()["code"]) == (409, "duplicate_dataset")


def test_a_family_pays_for_both_parts_on_one_ledger(service: Service) -> None:
    """One person may be in the training part of one dataset and in the holdout of another."""
    registration = registered(service, "kin", N + 6, family="kin")
    model = trained(service, registration["id"])
    evaluated(service, model)
    budgets = [service.budget(registration[part]) for part in ("id", "holdout")]
    assert budgets[0] == budgets[1]
    assert budgets[0]["jobs"] == 2


@pytest.mark.parametrize("is_person", [False, True])
def test_each_record_is_in_one_part_by_its_position_alone(service: Service, is_person: bool) -> None:
    """Rows are chosen by their position alone. A person's rows stay together."""
    lines = [f"p{i // 3},{i / 10},{'fm'[is_person]},low" for i in range(900)]
    file = ("who,age,sex,income\n" + "\n".join(lines) + "\n").encode()
    unit: Any = {"unit": {"column": "who", "max_rows": 4}} if is_person else {}
    registration = registered(service, f"parts {is_person}", file=file, **unit)
    parts = []
    for part in (registration["id"], registration["holdout"]):
        folder = service.home / "datasets" / part
        ages = 50 * (open_coded(folder).numbers[:, 0].astype(float) + 1)
        here = filled_slots(folder)
        parts.append(np.round(ages if here is None else np.where(here, ages, -1), 1))
    exact = np.arange(900) / 10
    if not is_person:
        out = holdout.are_held_out(900, 0.2)
        assert (np.sort(parts[1]) == exact[out]).all()
        assert (parts[0] == exact[~out]).all()
        return
    assert [len(part) for part in parts] == [4 * 240, 4 * 60]
    job = evaluated(service, trained(service, registration["id"], target="age", privacy={"epsilon": 1.0}))
    assert (job["quote"]["persons"], job["quote"]["rows"]) == (60, None)
    document = call(service, "GET", f"jobs/{job['id']}/evaluation").json()
    assert document["noise_std"] == pytest.approx(4 * job["quote"]["queries"][0]["noise_std"]), "of rows"
    assert abs(sum(document["result"]["counts"]) - 60 * 3) < 7 * document["noise_std"] * 40**0.5
    persons = [{tuple(rows[rows >= 0]) for rows in part.reshape(-1, 4)} for part in parts]
    assert persons[0] | persons[1] == {tuple(exact[3 * p : 3 * p + 3]) for p in range(300)}
    assert not persons[0] & persons[1]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"holdout": 0.6}, "out_of_range"),
        ({"holdout": 0}, "out_of_range"),
        ({"holdout": 0.2, "storage": "partitions"}, "invalid_request"),
        ({"holdout": 0.2, "name": "n" * 195}, "invalid_request"),
    ],
)
def test_an_impossible_holdout_is_refused(service: Service, changes: Any, code: str) -> None:
    refused = service.upload(SPEC | {"name": "refused"} | changes, people(N + 7))
    assert (refused.status_code, refused.json()["code"]) == (422, code)


def test_one_record_cannot_be_split(service: Service) -> None:
    refused = service.upload(SPEC | {"name": "one", "holdout": 0.5}, b"age,sex,income\n20,f,low\n")
    assert (refused.status_code, refused.json()["code"]) == (422, "unreadable_file")
