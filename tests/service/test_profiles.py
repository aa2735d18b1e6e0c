"""Profiles over HTTP: released once, for one price and one receipt, and free for every job after."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from httpx import Response

from app.jobs import store
from app.sources.spec import JobSpec
from app.worker.engine import RAISED
from solvers.preparation import ByProfile
from tests.service.conftest import MakeService
from tests.support.patience import until
from tests.support.service import JOB, SPEC, Service, people
from tests.support.world import check_books

PROFILE: dict[str, Any] = {"method": {"name": "profile", "bins": 10}, "privacy": {"epsilon": 0.3}}
REUSED: dict[str, Any] = JOB | {"method": {"name": "dp_gd", "steps": 20}, "preparation": {"name": "profile"}}
MOMENTS = {"means", "spread", "variances"}
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _books(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test, the books of its service balance."""
    names = [name for name in ("shared", "service") if name in request.fixturenames]
    service: Service | None = request.getfixturevalue(names[0]) if names else None
    yield
    if service is not None:
        check_books(service.database, service.app.state.services.keys.jwks())


def _post(service: Service, path: str, dataset: str, body: dict[str, Any], **changes: Any) -> Response:
    return service.call("analyst", "POST", f"/v1/{path}", json=body | {"dataset": dataset} | changes)


MEDIAN = {"method": {"name": "quantiles", "shares": [0.5]}, "columns": ["age"], "privacy": {"epsilon": 0.1}}


def _quote(service: Service, dataset: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = _post(service, "quotes", dataset, body, **changes)
    assert answer.status_code == 200, answer.text
    quote: dict[str, Any] = answer.json()
    return quote


def _finished_job(service: Service, dataset: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return service.done(body | {"dataset": dataset} | changes)


def _rival(service: Service, dataset: str) -> str:
    service.analyst("rival", dataset)
    return "rival"


def test_a_profile_is_charged_once_and_a_later_job_charges_only_its_training(
    make_service: MakeService, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with make_service(home) as service:
        dataset = service.dataset()
        price = _quote(service, dataset, PROFILE)
        job = _finished_job(service, dataset, PROFILE)
        assert (job["kind"], job["quote"]) == ("profile", price)
        assert service.budget(dataset)["remaining"] == price["remaining_after"]
        # A profile belongs to the dataset.
        response = service.call(_rival(service, dataset), "GET", f"/v1/jobs/{job['id']}/profile")
        published = response.json()
        assert [column["column"]["name"] for column in published["columns"]] == ["age", "sex", "income"]
        receipt = service.receipt(job["id"], "rival")["receipt"]
        assert receipt["model_sha256"] == hashlib.sha256(response.content).hexdigest()
        assert receipt["epsilon"] == published["privacy"]["epsilon"] <= 0.3
        assert receipt["method"] == {"name": "profile", "bins": 10}
        assert {query["name"] for query in receipt["queries"]} == {*MOMENTS, "histograms"}
        assert service.read(f"datasets/{dataset}")["profile"] == job["id"]
        asking = _quote(service, dataset, REUSED, preparation={"name": "private"})
        (median,) = _quote(service, dataset, MEDIAN)["interval_width"]
        assert (median["answer"], median["column"], median["basis"]) == ("quantile 0.5", "age", "profile")

    with make_service(home) as service:  # started again
        price = _quote(service, dataset, REUSED)
        used = {"job": job["id"], "sha256": hashlib.sha256(response.content).hexdigest()}
        assert price["preparation"]["name"] == "profile"
        assert price["preparation"]["profile"] == used
        (training,) = price["queries"]
        assert (training["name"], training["count"]) == ("gradient", 20)
        assert {query["name"] for query in asking["queries"]} == {"gradient", *MOMENTS}
        assert training["noise_multiplier"] == pytest.approx(asking["queries"][0]["noise_multiplier"] * 0.92**0.5)
        trained = _finished_job(service, dataset, REUSED)
        assert trained["quote"] == price
        assert service.budget(dataset)["remaining"] == price["remaining_after"]
        assert service.budget(dataset)["jobs"] == 2
        model = service.read(f"jobs/{trained['id']}/model")
        moments = [column["moments"] for column in published["columns"][:2]]  # age, sex: income is the target
        for part in ("center", "variances"):
            assert model["profile"][part] == [value for column in moments for value in column[part]]
        published_noise = np.array([value for column in moments for value in column["noise"]])
        assert (np.array(model["profile"]["noise"]) >= published_noise).all()
        receipt = service.receipt(trained["id"])["receipt"]
        assert receipt["profile"] == used == {key: model["profile"][key] for key in used}
        assert {query["name"] for query in receipt["queries"]} == {"gradient"}
        check_books(service.database, service.app.state.services.keys.jwks())


def test_a_model_can_be_computed_again_from_the_profile_that_it_names(shared: Service) -> None:
    """In the original columns: on the l2 ball of the frame's coordinates, whose frame is that of the moments."""
    dataset = shared.dataset()
    _finished_job(shared, dataset, PROFILE)
    ball = {"domain": {"name": "l2_ball", "radius": 0.5}, "privacy": {"epsilon": 2.0}}
    job = _finished_job(shared, dataset, REUSED, **ball)
    model = shared.read(f"jobs/{job['id']}/model")
    m, v, noise = (np.array(model["profile"][part]) for part in ("center", "variances", "noise"))
    v = np.clip(v, np.minimum(noise, 4), 4)
    scale = v**-0.25 / np.sqrt((v**0.5).sum()) / np.hypot(1, 0.3)
    slopes = np.array(model["coefficients"])
    constant = 0.3 / np.hypot(1, 0.3)
    w = np.append(slopes / scale, (model["intercept"] + slopes @ m) / constant)
    assert np.linalg.norm(w) <= 0.5 * (1 + 1e-9)


def test_auto_uses_a_profile_and_queries_no_moments(shared: Service) -> None:
    dataset = shared.dataset()
    job = _finished_job(shared, dataset, PROFILE)
    price = _quote(shared, dataset, REUSED, method={"name": "auto"})
    assert price["method"]["name"] == "adaptive_gd"
    assert price["preparation"]["profile"]["job"] == job["id"]
    assert {query["name"] for query in price["queries"]} == {"gradient"}
    trained = _finished_job(shared, dataset, REUSED, method={"name": "auto"})
    assert shared.read(f"jobs/{trained['id']}/model")["profile"]["job"] == job["id"]


def test_the_latest_profile_is_used_and_pinned_by_its_id(shared: Service) -> None:
    dataset = shared.dataset()
    first, second = (_finished_job(shared, dataset, PROFILE)["id"] for _ in range(2))
    by_default = _finished_job(shared, dataset, REUSED)
    assert by_default["quote"]["preparation"]["profile"]["job"] == second
    named = _finished_job(shared, dataset, REUSED, preparation={"name": "profile", "job": first})
    assert named["quote"]["preparation"]["profile"]["job"] == first
    with shared.database.read() as connection:
        spec = JobSpec.model_validate_json(store.document(connection, by_default["id"], "spec") or "")
    assert isinstance(spec.preparation, ByProfile)
    assert spec.preparation.job == second
    published = shared.read(f"jobs/{second}/profile")
    assert spec.preparation.moments.center[0] == published["columns"][0]["moments"]["center"][0]


def test_a_profile_that_cannot_be_used_is_refused_and_charges_nothing(service: Service) -> None:
    dataset, other_dataset = service.dataset(), service.dataset()
    elsewhere = _finished_job(service, other_dataset, PROFILE)["id"]
    trained = _finished_job(service, other_dataset, JOB | {"method": {"name": "dp_gd", "steps": 2}})["id"]
    state_before = service.durable(dataset)

    def refused(body: dict[str, Any], **changes: Any) -> tuple[int, str, str]:
        quoted, submitted = (_post(service, path, dataset, body, **changes) for path in ("quotes", "jobs"))
        assert quoted.json() == submitted.json()
        problem = quoted.json()
        text = " ".join([problem["detail"], *(f"{v['where']} {v['what']}" for v in problem.get("violations") or ())])
        return quoted.status_code, problem["code"], text

    def by_job(job: str) -> dict[str, Any]:
        return {"preparation": {"name": "profile", "job": job}}

    status, code, text = refused(REUSED)
    assert (status, code) == (422, "invalid_request")
    assert "no profile" in text
    assert "no profile" in refused(REUSED, **by_job(elsewhere))[2]
    for unknown in ("job_x", trained):
        assert "no profile" in refused(REUSED, **by_job(unknown))[2]
    _, code, text = refused(PROFILE, privacy={"epsilon": 0.5, "delta": 0.0})
    assert (code, "delta > 0" in text) == ("unsupported_combination", True)
    assert "body.target" in refused(PROFILE, target="income")[2]
    assert "body.method.profile.bins" in refused(PROFILE, method={"name": "profile", "bins": 0})[2]
    assert "body.target" in refused({key: value for key, value in JOB.items() if key != "target"})[2]
    assert service.durable(dataset) == state_before

    profile = _finished_job(service, dataset, PROFILE)["id"]
    state_before = service.durable(dataset)
    _, code, text = refused(REUSED, privacy={"epsilon": 0.5, "delta": 0.0})
    assert (code, "delta > 0" in text) == ("unsupported_combination", True)
    _, code, text = refused(REUSED, row_norm=0.5)
    assert (code, "row_norm" in text) == ("unsupported_combination", True)
    assert service.durable(dataset) == state_before
    assert service.read(f"datasets/{dataset}")["profile"] == profile


def test_an_unreleased_profile_is_not_used(service: Service) -> None:
    dataset = service.dataset()
    service.engine.gate.clear()
    waiting = _post(service, "jobs", dataset, PROFILE).json()["id"]
    until(lambda: service.read(f"jobs/{waiting}")["state"] == "running")  # a queued job would be refunded
    assert _post(service, "quotes", dataset, REUSED).status_code == 422
    assert service.call("analyst", "GET", f"/v1/jobs/{waiting}/profile").json()["code"] == "not_released"
    assert service.call(_rival(service, dataset), "GET", f"/v1/jobs/{waiting}/profile").status_code == 404
    assert service.call("rival", "GET", f"/v1/jobs/{waiting}/receipt").status_code == 404
    service.call("analyst", "DELETE", f"/v1/jobs/{waiting}")
    service.engine.gate.set()
    service.engine.ends[1] = RAISED
    failed = service.finished(_post(service, "jobs", dataset, PROFILE).json()["id"])
    assert (failed["state"], service.budget(dataset)["jobs"]) == ("failed", 2)
    assert service.read(f"datasets/{dataset}")["profile"] is None


def test_models_and_profiles_are_distinguished(shared: Service) -> None:
    dataset = shared.dataset()
    profile, model = _finished_job(shared, dataset, PROFILE)["id"], _finished_job(shared, dataset, REUSED)["id"]
    for wrong, right in ((f"{profile}/model", f"{profile}/profile"), (f"{model}/profile", f"{model}/model")):
        answer = shared.call("analyst", "GET", f"/v1/jobs/{wrong}")
        assert answer.status_code == 404
        assert right.split("/")[1] in answer.json()["detail"]
        assert shared.call("analyst", "GET", f"/v1/jobs/{right}").status_code == 200
    assert shared.call(_rival(shared, dataset), "GET", f"/v1/jobs/{model}/profile").status_code == 404
    assert shared.call("rival", "GET", f"/v1/jobs/{profile}").status_code == 404
    assert shared.call("rival", "GET", f"/v1/jobs/{profile}/profile").status_code == 200


def test_prices_are_functions_of_public_facts(shared: Service) -> None:
    """Two datasets of one declaration and size, with different values, have the same quotes except for names."""

    def quotes_of(name: str, file: bytes) -> tuple[Any, Any]:
        dataset = shared.upload(SPEC | {"name": name}, file).json()["id"]
        price = _quote(shared, dataset, PROFILE)
        _finished_job(shared, dataset, PROFILE)
        reusing = _quote(shared, dataset, REUSED, method={"name": "auto"})
        used = reusing["preparation"].pop("profile")
        assert len(used["sha256"]) == 64
        return ({k: v for k, v in quote.items() if k != "dataset"} for quote in (price, reusing))  # type: ignore[return-value]

    constant = b"age,sex,income\n" + b"100,m,high\n" * 180
    assert [json.dumps(part) for part in quotes_of("ordinary", people(180))] == [
        json.dumps(p) for p in quotes_of("same", constant)
    ]


def test_a_dataset_of_categories_alone_has_its_marginals(shared: Service) -> None:
    columns = [column for column in SPEC["columns"] if column["type"] == "category"]
    dataset = shared.dataset(columns=columns)
    job = _finished_job(shared, dataset, PROFILE, privacy={"epsilon": 3.0})
    assert [query["name"] for query in job["quote"]["queries"]] == ["means"]
    sex, income = shared.read(f"jobs/{job['id']}/profile")["columns"]
    rows = job["quote"]["rows"]
    assert sex["counts"] == pytest.approx([rows / 2, rows / 2, 0], abs=6 * sex["counts_noise_std"])
    assert sex["counts_noise_std"] == pytest.approx(job["quote"]["queries"][0]["noise_std"] * rows)
    assert (income["edges"], income["mean"], income["quantiles"]) == (None, None, None)


@pytest.mark.parametrize("kind", ["gdp", "pure"])
def test_filters_charge_it_or_say_why_not(shared: Service, kind: str) -> None:
    delta = 0.0 if kind == "pure" else 1e-6
    dataset = shared.dataset(budget={"epsilon": 3.0, "delta": delta, "filter": kind})
    if kind == "pure":
        answer = _post(shared, "jobs", dataset, PROFILE)
        assert answer.json()["code"] == "method_filter_mismatch"
    else:
        _finished_job(shared, dataset, PROFILE)
        assert shared.budget(dataset)["spent"]["epsilon"] == pytest.approx(0.3, rel=1e-3)
