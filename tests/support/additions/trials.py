"""Trials of the additions, which run as tests in the copy of the product."""

import json
import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import TypeAdapter

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.errors import CodecError
from accounting.filter import Filter
from accounting.mechanisms import Mechanism, PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, Query
from accounting.records import receipt
from accounting.records.codec import plan_from_json, plan_to_json
from accounting.records.signing import sign_json
from app.cli import main
from app.cli.output import release_output
from app.sources.spec import JobSpec
from app.wire import JobRequest, StatisticRequest
from purse.results import Statistic
from solvers import Problem, kernels, methods, plan, solve
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.walk import WalkingOracle
from solvers.losses import Logistic, Loss, Squared, names
from solvers.solve import run
from tests.service.conftest import running_service
from tests.support.members import name_of
from tests.support.pages import visit
from tests.support.receipts import KEY, KEYS, make
from tests.support.service import STEWARD


def _member(union: Any, name: str) -> Any:
    return next(kind for kind in get_args(union) if name_of(kind) == name)


def test_trial_of_a_loss() -> None:
    """The loss is planned, fitted, compiled with the union, and described in the schema."""
    import solvers.compiled  # noqa: F401

    loss = _member(Loss, "log_cosh")()
    assert "log_cosh" in names("number")
    misses = kernels.c_function.cache_info().misses
    rng = np.random.default_rng(1)
    problem, w = Problem(loss, n=20_000, d=3, row_norm=2.0), np.array([0.3, -0.2, 0.1])
    X = rng.uniform(-1, 1, (20_000, 3))
    y = X @ w + 0.01 * rng.standard_normal(20_000)
    for method in (methods.DpGd(), methods.OutputPerturbation(), methods.DpSvrg(epochs=3, inner_steps=400, batch=5)):
        assert plan(method, problem, Privacy(50.0, 1e-5)).release.epsilon <= 50
        assert np.linalg.norm(solve(method, problem, X, y, Privacy(50.0, 1e-5)).coefficients - w) < 0.1, method.name
    queries = Plan((PlannedQuery("change", 9, PoissonGaussian(0.0002), 1.0),))
    oracle = WalkingOracle(problem, inputs.of_arrays(X, y, problem), queries, Noise())
    assert oracle.walk("change", w, w, np.zeros(3), 0.1, 9) is not None
    assert kernels.c_function.cache_info().misses == misses, "a first use compiles nothing"
    schema = JobRequest.model_json_schema()
    assert schema["$defs"]["LogCosh"]["properties"]["name"]["const"] == "log_cosh"
    assert schema["$defs"]["LogCosh"]["additionalProperties"] is False
    assert "log_cosh" in json.dumps(schema["properties"]["loss"])


def test_trial_of_a_mechanism() -> None:
    """The mechanism is calibrated, written as JSON, charged by the filter, and verified in a receipt."""
    queries = (Query("votes", 3, _member(Mechanism, "coin")(2)),)
    for privacy in (Privacy(0.5), Privacy(0.5, 1e-6)):
        planned = calibrate(queries, privacy).plan
        assert plan_from_json(plan_to_json(planned)) == planned
        built = make(queries, privacy)
        assert receipt.verify({"receipt": built, "signature": sign_json(built, KEY)}, KEYS).holds
        assert Filter.open("pure", Privacy(0.5)).cost(planned)
    document = plan_to_json(planned)
    for change in ({"sides": 3}, {"sides": 2.0}, {"sides": math.nan}, {"heads": 1}):
        with pytest.raises(CodecError):
            plan_from_json({"queries": [document["queries"][0] | change]})


def test_trial_of_a_method() -> None:
    """The method is read from a request and from storage, planned, and run within its plan."""
    body = {"dataset": "ds_0", "target": "t", "privacy": {"epsilon": 1.0}, "method": {"name": "one_step", "step": 0.5}}
    method = JobRequest.model_validate_json(json.dumps(body)).method
    problem = Problem(Logistic(), n=50, d=2, row_norm=1.0)
    quote = plan(method, problem, Privacy(1.0, 1e-6))
    annotation: Any = JobSpec.model_fields["method"].annotation
    stored = TypeAdapter(annotation).validate_json('{"step":0.5,"name":"one_step"}')
    assert stored == quote.method
    w, transcript, _ = run(stored, problem, inputs.of_arrays(np.ones((50, 2)), np.ones(50), problem), quote.release)
    assert transcript == quote.release.plan
    assert np.isfinite(w).all()


def test_trial_of_a_statistic(tmp_path: Path) -> None:
    """The statistic is planned, answered within its plan, and shown with its interval wherever results are shown."""
    body = {"dataset": "ds_0", "columns": ["a", "b"], "privacy": {"epsilon": 1.0}, "method": {"name": "spread"}}
    method = StatisticRequest.model_validate_json(json.dumps(body)).method
    columns = Columns((1, 1))
    problem = Problem(Squared(), n=2000, d=3, row_norm=columns.row_norm, columns=columns)
    quote = plan(method, problem, Privacy(50.0, 1e-6))
    X = np.column_stack((np.linspace(-1, 1, 2000), np.zeros(2000), np.ones(2000)))
    answers, transcript, _ = run(method, problem, inputs.of_arrays(X, np.zeros(2000), problem), quote.release)
    assert transcript == quote.release.plan
    assert abs(answers[0] - 1 / 3) < 0.05
    with running_service(tmp_path / "home") as service:
        dataset = service.dataset()
        form = visit(service, STEWARD, f"/pages/datasets/{dataset}/new?kind=statistic").text
        job = service.done(body | {"dataset": dataset, "columns": ["age"]}, "statistics")
        released = Statistic.model_validate(service.read(f"jobs/{job['id']}/statistic"))
        page = visit(service, STEWARD, f"/pages/jobs/{job['id']}").text
        [width] = job["quote"]["interval_width"]
    assert f"spread: {released.result.releases}" in form
    assert "Spread of age" in page
    for text in (page, release_output(released, None).text, released._repr_html_()):
        assert "squared distance" in text
    [distance] = released.tables()[0].estimates
    assert distance.high - distance.low == pytest.approx(width["width"], rel=0.01)


def test_trial_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,sex\n")
    for arguments, expected in ((["--json"], '"age"'), ([], "age sex"), (["--help"], "purse columns people.csv")):
        with pytest.raises(SystemExit) as exit_info:
            main(["columns", str(file), *arguments])
        assert not exit_info.value.code
        assert expected in capsys.readouterr().out


def test_trial_of_a_page(tmp_path: Path) -> None:
    with running_service(tmp_path / "home") as service:
        answer = visit(service, STEWARD, "/pages/colophon")
    assert answer.status_code == 200
    assert "<h1>Colophon</h1>" in answer.text
