"""Jobs over HTTP: from the request to the model and its receipt, and everything that may go otherwise."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from httpx import Response

from accounting.divergences.gaussian import gauss_mu
from app.worker.engine import RAISED
from purse.prediction import predict
from purse.wire.models import Model
from solvers.methods import Method
from tests.support.members import name_of
from tests.support.patience import until
from tests.support.service import JOB, SPEC, Service
from tests.support.world import check_books

DECLARED = {"name": "declared"}


def _body(dataset: str, **changes: Any) -> dict[str, Any]:
    return JOB | {"dataset": dataset} | changes


def _submit(service: Service, dataset: str, role: str = "analyst", key: str | None = None, **changes: Any) -> Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return service.call(role, "POST", "/v1/jobs", json=_body(dataset, **changes), headers=headers)


def _kinds(service: Service, dataset: str) -> list[str]:
    return [entry["kind"] for entry in service.entries(dataset)]


def _another_analyst(service: Service) -> str:
    if "rival" not in service.tokens:
        service.analyst("rival")
    return "rival"


@pytest.fixture(scope="module")
def _balanced() -> dict[str, Any]:
    """The rows that were found in balance after an earlier test."""
    return {}


@pytest.fixture(autouse=True)
def _books(request: pytest.FixtureRequest, _balanced: dict[str, Any]) -> Iterator[None]:
    """After every test, the books of its service balance."""
    names = [name for name in ("shared", "service") if name in request.fixturenames]
    service: Service | None = request.getfixturevalue(names[0]) if names else None
    yield
    if service is not None:
        check_books(service.database, service.app.state.services.keys.jwks(), balanced=_balanced)


@pytest.fixture
def closed(service: Service) -> Service:
    """A service whose attempts wait before they open the data."""
    service.engine.gate.clear()
    return service


def _running(service: Service, dataset: str) -> str:
    job = _submit(service, dataset).json()["id"]
    while service.call("analyst", "GET", f"/v1/jobs/{job}").json()["state"] == "queued":
        pass
    return str(job)


@pytest.mark.slow
def test_from_request_to_model_and_receipt(shared: Service) -> None:
    dataset = shared.dataset()
    quote = shared.call("analyst", "POST", "/v1/quotes", json=_body(dataset)).json()
    assert quote["fits"]
    answer = _submit(shared, dataset)
    assert answer.status_code == 202
    assert answer.json()["quote"] == quote
    job = shared.finished(answer.json()["id"])
    assert (job["state"], job["attempt"], job["error"]) == ("done", 1, None)
    total = sum(query["count"] for query in quote["queries"])
    assert job["progress"] == {"done": total, "total": total}

    model = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").json()
    assert (model["kind"], model["loss"], model["link"], model["classes"]) == (
        "linear",
        "logistic",
        "logistic",
        ["low", "high"],
    )
    assert len(model["coefficients"]) == 1 + 3  # age; f, m, other
    assert [feature["name"] for feature in model["features"]] == ["age", "sex"]
    receipt = shared.receipt(job["id"], "auditor")
    assert model["privacy"]["epsilon"] == receipt["receipt"]["epsilon"] <= 0.5
    assert _kinds(shared, dataset) == ["opened", "charged", "started", "released"]
    budget = shared.budget(dataset, "analyst")
    assert budget["jobs"] == 1
    assert budget["remaining"] == quote["remaining_after"]


FORMS: tuple[dict[str, Any], ...] = (
    {"name": "dp_gd", "release": "last"},
    {"name": "dp_gd", "release": "random", "steps": 3},
    {"name": "dp_svrg", "form": "printed", "batch": 40, "epochs": 2, "inner_steps": 10},
    {"name": "dp_svrg_pp", "form": "printed", "batch": 1, "epochs": 2, "inner_steps": 5},
    {"name": "dp_svrg", "step_rule": "barzilai_borwein", "epochs": 3, "inner_steps": 10},
    {"name": "bootstrap_reduction", "inner": {"name": "output_perturbation"}},
    {"name": "auto"},
)
MEDIAN = {"target": "age", "features": [], "loss": {"name": "absolute"}, "domain": {"name": "linf_ball", "radius": 1.0}}
FITTING: dict[str, dict[str, Any]] = {  # where a method does not suit this dataset's default problem
    "ada_ssp": {"target": "age", "loss": {"name": "squared"}},
    "epoch_growth": {"method": {"name": "epoch_growth", "epochs": 2}},
    "inverse_sensitivity": MEDIAN | {"privacy": {"epsilon": 0.5, "delta": 0.0}},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", [*({"name": name_of(kind)} for kind in get_args(Method)), *FORMS], ids=str)
def test_every_method_runs(shared: Service, method: dict[str, Any]) -> None:
    dataset, changes = shared.dataset(), {"method": method} | FITTING.get(method["name"], {})
    job = shared.done(_body(dataset, **changes))
    receipt = shared.receipt(job["id"])["receipt"]
    assert receipt["method"] == job["quote"]["method"]
    assert None not in receipt["method"].values()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gdp", "rdp"])
def test_a_last_iterate_is_charged_and_receipted_as_one_gaussian_answer(shared: Service, kind: str) -> None:
    """The quote, the job and the receipt of hundreds of hidden steps name dp_gd and its release."""
    dataset = shared.dataset(budget={"epsilon": 3.0, "delta": 1e-6, "filter": kind})
    method, ridge = {"name": "dp_gd", "release": "last", "steps": 300}, {"name": "l2", "strength": 0.01}
    plain: dict[str, Any] = {"method": method, "regularizer": ridge, "preparation": DECLARED}
    quote = shared.call("analyst", "POST", "/v1/quotes", json=_body(dataset, **plain)).json()
    assert quote["method"] == method | {"step": quote["method"]["step"]}
    (query,) = quote["queries"]
    assert (query["name"], query["count"], query["answers"]) == ("last_iterate", 1, 1)
    contraction = 1 / (1 + quote["method"]["step"] * 0.01)
    assert query["mechanism"] == {"name": "last_iterate", "steps": 300, "contraction": pytest.approx(contraction)}
    assert quote["forecast"]["excess_risk"] > 0
    assert quote["gradient_evaluations"] == 300 * quote["rows"]
    job = shared.done(_body(dataset, **plain))
    assert job["progress"] == {"done": 1, "total": 1}
    document = shared.receipt(job["id"])
    receipt = document["receipt"]
    assert receipt["method"] == quote["method"]
    assert receipt["event"] == {
        "type": "GaussianDpEvent",
        "noise_multiplier": pytest.approx(2 / gauss_mu(0.5, 1e-6), rel=1e-9),
    }
    verified = shared.call(None, "POST", "/v1/receipts/verify", json=document).json()
    assert verified["recomputed_epsilon"] <= 0.5 * (1 + 1e-9)
    assert shared.budget(dataset)["remaining"] == quote["remaining_after"]


@pytest.mark.slow
def test_a_random_iterate_has_its_own_event_and_no_currency_under_gdp(shared: Service) -> None:
    dataset, method = shared.dataset(), {"name": "dp_gd", "release": "random", "steps": 40}
    changes: dict[str, Any] = {"method": method, "loss": {"name": "sigmoid"}, "preparation": DECLARED}
    job = shared.done(_body(dataset, **changes))
    assert job["quote"]["accountant"] == "single_use"
    event = shared.receipt(job["id"])["receipt"]["event"]
    assert (event["type"], event["steps"], event["event"]["type"]) == ("RandomIterateDpEvent", 40, "GaussianDpEvent")
    gdp = shared.dataset(budget={"epsilon": 3.0, "delta": 1e-6, "filter": "gdp"})
    answer = _submit(shared, gdp, method=method)
    assert (answer.status_code, answer.json()["code"]) == (422, "method_filter_mismatch")


@pytest.mark.slow
def test_phases_on_disjoint_rows_are_one_query_of_many_answers(shared: Service) -> None:
    """Each of them has the whole budget, and the receipt states the cost of one."""
    method = {"name": "localization", "phases": 5}
    body: dict[str, Any] = {"method": method, "loss": {"name": "hinge"}, "preparation": DECLARED}
    job = shared.done(_body(shared.dataset(), **body))
    [query] = job["quote"]["queries"]
    assert (query["count"], query["answers"], query["mechanism"]["parts"]) == (1, 5, 5)
    assert job["progress"] == {"done": 5, "total": 5}
    assert shared.receipt(job["id"], "auditor")["receipt"]["event"]["type"] == "GaussianDpEvent"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "target", "link"),
    [
        ({"name": "huber_hinge"}, "income", "sign"),
        ({"name": "sigmoid"}, "income", "sign"),
        ({"name": "huber", "smoothing": 0.2}, "age", "identity"),
        ({"name": "quantile", "level": 0.9, "smoothing": 0.1}, "age", "identity"),
        ({"name": "power", "exponent": 2}, "age", "identity"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else value,
)
def test_every_smooth_loss_trains(shared: Service, loss: dict[str, Any], target: str, link: str) -> None:
    job = shared.done(_body(shared.dataset(), target=target, loss=loss))
    model = Model.model_validate_json(shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").content)
    assert (model.loss, model.link) == (loss["name"], link)
    assert model.classes == (["low", "high"] if link == "sign" else None)
    [prediction] = predict(model, [{"age": 50, "sex": "f", "income": "low"}])
    assert prediction in ("low", "high") if link == "sign" else np.isfinite(prediction)


class TestOddData:
    """Jobs on unusual data train like any other, because an error would depend on the data."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "rows",
        [
            "1,f,low\n" * 100,
            "1,f,high\n" * 100,
            "1e300,m,high\n-1e300,f,low\n" * 50,
            "nan,,\ninf,x,y\n,,\n" * 40,
            "0,f,low\n",
            "50,m,neither\n" * 30,
        ],
        ids=["one class", "the other", "absurd", "missing", "one row", "undeclared"],
    )
    @pytest.mark.parametrize("method", ["dp_gd", "dp_svrg"])
    def test_trains(self, shared: Service, rows: str, method: str, request: pytest.FixtureRequest) -> None:
        name = request.node.name
        file = f"age,sex,income,{name}\n".encode() + "".join(f"{row},0\n" for row in rows.splitlines()).encode()
        age = SPEC["columns"][0] | {"upper": 100 + len(method)}  # the same values are a dataset once
        declared = {"name": name, "columns": [age, *SPEC["columns"][1:]], "max_unparsed": 1}
        dataset = shared.registered(SPEC | declared, file)["id"]
        job = shared.done(_body(dataset, method={"name": method}))
        model = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").json()
        assert np.isfinite([*model["coefficients"], model["intercept"]]).all()


class TestIdempotency:
    @pytest.mark.slow
    def test_defaults_written_out_are_the_same_body(self, shared: Service) -> None:
        dataset = shared.dataset()
        first = _submit(shared, dataset, key="abc-2")
        second = _submit(shared, dataset, key="abc-2", method={"name": "auto"}, domain={"name": "free"})
        assert first.json()["id"] == second.json()["id"]

    @pytest.mark.slow
    def test_another_body_is_a_conflict(self, shared: Service) -> None:
        dataset = shared.dataset()
        _submit(shared, dataset, key="abc-3")
        answer = _submit(shared, dataset, key="abc-3", privacy={"epsilon": 0.6})
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
        assert _kinds(shared, dataset).count("charged") == 1

    @pytest.mark.slow
    def test_keys_are_each_owners_own(self, shared: Service) -> None:
        rival, dataset = _another_analyst(shared), shared.dataset()
        first = _submit(shared, dataset, key="abc-4")
        second = _submit(shared, dataset, role=rival, key="abc-4")
        assert first.json()["id"] != second.json()["id"]

    @pytest.mark.slow
    def test_finds_its_job_after_the_budget_is_spent(self, shared: Service) -> None:
        """A repeated request returns its job, although a new job would not fit the budget."""
        dataset = shared.dataset()
        first = _submit(shared, dataset, key="abc-5", privacy={"epsilon": 3.0})
        second = _submit(shared, dataset, key="abc-5", privacy={"epsilon": 3.0})
        assert second.status_code == 202
        assert first.json()["id"] == second.json()["id"]

    @pytest.mark.slow
    @pytest.mark.parametrize("key", ["", "a b", "x" * 201, "\u00fc".encode("latin-1")])
    def test_an_invalid_key_is_refused(self, shared: Service, key: Any) -> None:
        answer = shared.call(
            "analyst", "POST", "/v1/jobs", json=_body(shared.dataset()), headers={"Idempotency-Key": key}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.slow
def test_a_spent_budget_admits_only_what_remains(shared: Service) -> None:
    dataset = shared.dataset(budget={"epsilon": 1.0, "delta": 1e-6})
    shared.done(_body(dataset, privacy={"epsilon": 0.6}))
    kinds_before = _kinds(shared, dataset)
    quote = shared.call("analyst", "POST", "/v1/quotes", json=_body(dataset, privacy={"epsilon": 0.9})).json()
    answer = _submit(shared, dataset, privacy={"epsilon": 0.9})
    assert (answer.status_code, answer.json()["code"]) == (409, "budget_exhausted")
    assert (quote["fits"], quote["remaining_after"]) == (False, None)
    assert answer.json()["remaining"] == quote["remaining"]
    assert _kinds(shared, dataset) == kinds_before
    remaining = answer.json()["remaining"]["epsilon"]
    assert 0 < remaining < 0.9
    assert _submit(shared, dataset, privacy={"epsilon": remaining}).status_code == 202, (
        "the stated remainder is admitted"
    )


class TestNames:
    """Every accepted name fits into a receipt. Otherwise its jobs would be charged and never released."""

    @pytest.mark.slow
    def test_of_any_script(self, shared: Service) -> None:
        name = "\u0141ukasz \u738b"
        shared.analyst(name)
        dataset = shared.dataset(name="\u4eba\u53e3 \u00fc\U0001f600")
        job = shared.done(_body(dataset), role=name)
        assert shared.receipt(job["id"], name)["receipt"]["dataset_name"] == "\u4eba\u53e3 \u00fc\U0001f600"

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["a\u00a0b", "a\u200bb", "a\u2028b", "a\u202eb", "a\u0085b", "\ue000"])
    def test_with_invisible_characters(self, shared: Service, name: str) -> None:
        assert shared.upload(SPEC | {"name": name}).status_code == 422
        token_request = {"name": name, "role": "analyst"}
        assert shared.call("steward", "POST", "/v1/tokens", json=token_request).status_code == 422


class TestWhoSeesWhat:
    @pytest.mark.slow
    def test_an_auditors_list_has_no_coefficient(self, shared: Service) -> None:
        job = shared.done(_body(shared.dataset()))["id"]
        listed_jobs = shared.call("auditor", "GET", "/v1/jobs", params={"limit": 500}).json()["items"]
        [listed_job] = [item for item in listed_jobs if item["id"] == job]
        assert (listed_job["state"], listed_job["analyst"], 0.4 < listed_job["quote"]["epsilon"] <= 0.5) == (
            "done",
            "the analyst",
            True,
        )
        assert listed_job["quote"]["method"]["name"]
        released = shared.call("steward", "GET", f"/v1/jobs/{job}/model").json()
        assert not {"coefficients", "intercept"} & (set(listed_job) | set(listed_job["quote"]))
        assert str(released["intercept"]) not in json.dumps(listed_job)


class TestCancel:
    @pytest.mark.slow
    def test_refunds_a_job_that_has_not_started(self, closed: Service) -> None:
        dataset = closed.dataset()
        first, second = _running(closed, dataset), _running(closed, dataset)
        whole = closed.dataset()
        waiting = _submit(closed, whole, privacy={"epsilon": 3.0}).json()
        assert waiting["state"] == "queued"
        answer = closed.call("analyst", "DELETE", f"/v1/jobs/{waiting['id']}")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        assert (waiting["share"], answer.json()["share"]) == (1.0, 0.0)
        assert _kinds(closed, whole) == ["opened", "charged", "refunded"]
        assert closed.budget(whole)["spent"]["epsilon"] == 0.0
        closed.engine.gate.set()
        assert {closed.finished(job)["state"] for job in (first, second)} == {"done"}
        assert (waiting["id"], 1) not in closed.engine.submitted

    @pytest.mark.slow
    def test_keeps_the_charge_of_a_started_job(self, closed: Service) -> None:
        dataset = closed.dataset()
        job = _running(closed, dataset)
        answer = closed.call("steward", "DELETE", f"/v1/jobs/{job}")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        assert _kinds(closed, dataset) == ["opened", "charged", "started", "cancelled"]
        assert closed.budget(dataset)["jobs"] == 1
        # its slot is free: two jobs run at once
        successors = [_running(closed, dataset) for _ in range(2)]
        closed.engine.gate.set()
        assert {closed.finished(successor)["state"] for successor in successors} == {"done"}
        assert closed.finished(job)["state"] == "cancelled"


class TestFailure:
    @pytest.mark.slow
    def test_an_attempt_that_raised_is_failed_and_charged(self, service: Service) -> None:
        service.engine.ends[1] = RAISED
        dataset = service.dataset()
        job = service.finished(_submit(service, dataset).json()["id"])
        assert (job["state"], job["error"], job["attempt"]) == ("failed", "job_failed", 1)
        assert _kinds(service, dataset) == ["opened", "charged", "started", "failed"]
        for path in ("model", "receipt"):
            answer = service.call("analyst", "GET", f"/v1/jobs/{job['id']}/{path}")
            assert (answer.status_code, answer.json()["code"]) == (409, "not_released")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "output",
        [
            "not json",
            "{}",
            '{"coefficients": [1.0, 2.0], "transcript": {"queries": []}}',
            '{"coefficients": [NaN, 1, 1, 1, 1], "transcript": TRANSCRIPT}',
            '{"coefficients": [1, 1, 1, 1], "transcript": TRANSCRIPT}',
            '{"coefficients": [1, 1, 1, 1, 1], "transcript": MORE}',
        ],
        ids=["no json", "empty", "no queries", "not finite", "too narrow", "more than planned"],
    )
    def test_an_output_that_is_not_the_plans(self, service: Service, output: str) -> None:
        dataset = service.dataset()
        plain: dict[str, Any] = {"method": {"name": "dp_gd"}, "preparation": DECLARED}
        quote = service.call("analyst", "POST", "/v1/quotes", json=_body(dataset, **plain)).json()
        [query] = quote["queries"]
        answered = {"name": "gradient", "mechanism": "gaussian", "noise_multiplier": query["noise_multiplier"]}
        transcript = json.dumps({"queries": [answered | {"count": query["count"]}]})
        longer = json.dumps({"queries": [answered | {"count": query["count"] + 1}]})
        service.engine.ends[1] = output.replace("TRANSCRIPT", transcript).replace("MORE", longer)
        job = service.finished(_submit(service, dataset, **plain).json()["id"])
        assert (job["state"], job["error"]) == ("failed", "job_failed")

    @pytest.mark.slow
    def test_the_failure_of_a_job_shows_nothing_of_damaged_values(
        self, service: Service, caplog: pytest.LogCaptureFixture
    ) -> None:
        dataset = service.dataset()
        [values] = (service.home / "datasets").glob("*/numbers.npy")
        values.write_bytes(b"secret of row 17")
        job = service.finished(_submit(service, dataset).json()["id"])
        assert (job["state"], job["error"]) == ("failed", "job_failed")
        assert "secret" not in caplog.text
        assert "numbers.npy" not in caplog.text

    @pytest.mark.slow
    def test_the_scratch_disk_is_empty_afterwards(self, service: Service) -> None:
        service.done(_body(service.dataset()))
        assert list((service.home / "scratch").glob("*")) == []


class TestEvents:
    def _stream(self, service: Service, job: str, last: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        headers = {} if last is None else {"Last-Event-ID": last}
        answer = service.call("analyst", "GET", f"/v1/jobs/{job}/events", headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream")
        states = []
        for block in answer.text.strip().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if fields:
                assert fields["event"] == "job"
                states.append((fields["id"], json.loads(fields["data"])))
        return states

    @pytest.mark.slow
    def test_tell_of_every_stage_and_end(self, service: Service) -> None:
        job = _submit(service, service.dataset(), method={"name": "dp_gd", "steps": 1997}).json()["id"]
        events = self._stream(service, job)
        states = [event["state"] for _, event in events]
        assert states[-1] == "done"
        assert states == sorted(states, key=["queued", "running", "done"].index)
        counts = [event["progress"]["done"] for _, event in events]
        assert counts[-1] == events[-1][1]["progress"]["total"] == 2000
        assert not any(counts[:-1]), "the time of a step would tell what its batch was"
        assert len({identifier for identifier, _ in events}) == len(events)

    @pytest.mark.slow
    def test_continue_after_the_last_event_id(self, service: Service) -> None:
        ten: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 10}, "preparation": DECLARED}
        job = service.done(_body(service.dataset(), **ten))["id"]
        [(identifier, last)] = self._stream(service, job, last="1.3.0")
        assert (identifier, last["state"]) == ("1.10.1", "done")
        assert len(self._stream(service, job, last=identifier)) == 1, "the end is always told"

    @pytest.mark.slow
    def test_an_invalid_event_id_is_refused(self, shared: Service) -> None:
        job = shared.done(_body(shared.dataset()))["id"]
        for last in ("", "x", "1.2", "1.2.3.4", "-1.0.0", "1e9.0.0", "9" * 20 + ".0.0"):
            assert len(self._stream(shared, job, last=last)) == 1, last

    @pytest.mark.slow
    def test_of_a_cancelled_job(self, closed: Service) -> None:
        job = _running(closed, closed.dataset())
        closed.call("analyst", "DELETE", f"/v1/jobs/{job}")
        assert self._stream(closed, job)[-1][1]["state"] == "cancelled"


@pytest.mark.slow
def test_a_restart_continues_unfinished_jobs(make_service: Any, tmp_path: Path) -> None:
    """The first server stops with one job running and one waiting; the second finishes both, under the same charges."""
    times = {"lease_seconds": 1.0, "renew_seconds": 0.2}
    with make_service(tmp_path / "home", **times) as service:
        service.engine.gate.clear()
        service.engine.slots = 1
        dataset = service.dataset()
        running, waiting = _running(service, dataset), _submit(service, dataset).json()["id"]
        tokens = dict(service.tokens)
        dispatcher = service.app.state.services.dispatcher
        dispatcher.stop(0.1)
        until(lambda: dispatcher.drain(0.1))  # otherwise the first attempt may end when the engine is closed
    with make_service(tmp_path / "home", **times) as service:
        service.tokens.update(tokens)
        assert service.finished(waiting)["attempt"] == 1
        job = service.finished(running)
        assert (job["state"], job["attempt"]) == ("done", 2)
        kinds = _kinds(service, dataset)
        assert [kinds.count(kind) for kind in ("charged", "started", "released")] == [2, 3, 2]
        check_books(service.database, service.app.state.services.keys.jwks())
