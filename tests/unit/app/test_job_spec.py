"""What a job is, in one document: written at the quote, read by worker and release, and nothing else beside it."""

import copy
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.privacy import Privacy
from accounting.records.codec import plan_to_json
from app.jobs import release, service
from app.jobs.store import JobRow
from app.sources.design import Design, load
from app.sources.spec import JobSpec
from app.wire import JobRequest
from app.worker.dispatcher import Dispatcher
from purse import Model
from purse.wire.datasets import DatasetSpec
from solvers.domains import Domain, L1Ball, L2Ball, LinfBall, Simplex
from solvers.losses import Logistic, Loss, Softmax
from solvers.methods import DpGd, Run
from solvers.preparation import Declared
from solvers.problem import Problem
from solvers.regularizers import L1, L2, ElasticNet, Regularizer
from tests.support.inline_engine import InlineEngine
from tests.support.members import every
from tests.support.world import World, run_out

COLUMNS: list[dict[str, Any]] = [
    {"name": "a\u00e9 \U0001f600", "type": "number", "lower": -1e-300, "upper": 1e150},
    {"name": "sex", "type": "category", "categories": ["f", "m"], "default": "m"},
    {"name": "city", "type": "category", "categories": ["Oslo", "Rome", "Lima"]},
]
DECLARED = DatasetSpec.model_validate_json(
    json.dumps({"name": "d", "columns": COLUMNS, "budget": {"epsilon": 1.0, "delta": 1e-6}})
)
REQUESTS: list[dict[str, Any]] = [
    {"target": "sex"},
    {"target": "city", "positive": "Rome", "row_norm": 0.1},
    {"target": "city", "features": ["sex"]},
    {"target": COLUMNS[0]["name"], "features": ["sex"]},
    {"target": COLUMNS[0]["name"], "features": []},
]
DOMAINS: list[Domain] = every(Domain, L2Ball(0.5), L1Ball(1 / 3), LinfBall(2.0), Simplex())
REGULARIZERS: list[Regularizer] = every(Regularizer, L2(1e-4), L1(0.1), ElasticNet(0.1, 1 / 3))

RUN = DpGd(steps=3).resolve(Problem(Logistic(), n=9, d=2, row_norm=1.0), Privacy(0.7, 1e-6))


def _design(fields: dict[str, Any]) -> Design:
    body = {"dataset": "ds", "privacy": {"epsilon": 1.0}} | fields
    return Design.of(DECLARED, JobRequest.model_validate_json(json.dumps(body)))


def _problems(fields: dict[str, Any]) -> list[Problem]:
    """Return all problems that are possible for this design."""
    design = _design(fields)
    takes = "number" if design.target.type == "number" else "class"
    suited: list[Loss] = [loss for loss in every(Loss) if loss.takes == takes and not isinstance(loss, Softmax)]
    losses = suited if design.outputs == 1 else [Softmax(design.outputs)]
    facts: dict[str, Any] = {"n": 4000, "d": design.d, "row_norm": design.row_norm, "columns": design.columns}
    domains = [domain for domain in DOMAINS if domain.diameter(design.size) > 0]  # a simplex may be a point
    return [Problem(*parts, **facts) for parts in itertools.product(losses, REGULARIZERS, domains)]


def _spec(fields: dict[str, Any], problem: Problem, run: Run) -> JobSpec:
    queries = run.queries(problem)
    plan = Plan(tuple(PlannedQuery(q.name, q.count, q.mechanism, 1 / 3 + 7) for q in queries))
    release = ReleasePlan(plan, 0.7, 1e-6, "exact_gaussian", "1")
    return JobSpec(design=_design(fields), problem=problem, method=run, release_plan=release)


def _assert_restored(spec: JobSpec) -> None:
    text = spec.to_json()
    read = JobSpec.model_validate_json(text)
    assert read == spec
    assert read.to_json() == text


@pytest.mark.parametrize("fields", REQUESTS, ids=str)
def test_every_design_and_problem_is_restored_from_its_json(fields: dict[str, Any]) -> None:
    problems = _problems(fields)
    assert len(problems) >= (len(DOMAINS) - 1) * len(REGULARIZERS)
    for problem in problems:
        _assert_restored(_spec(fields, problem, RUN))


def _places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every part of a document with its path."""
    yield at, node
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in parts:
        yield from _places(value, (*at, key))


def _with(document: Any, at: tuple[Any, ...], value: Any) -> str:
    changed = {"": copy.deepcopy(document)}
    node: Any = changed
    for key in ("", *at)[:-1]:
        node = node[key]
    node[("", *at)[-1]] = value
    return json.dumps(changed[""])


def test_a_document_that_could_not_have_been_written_is_refused() -> None:
    """Additional fields, NaN, infinities and numbers as text are refused anywhere in the document."""
    request = REQUESTS[1]
    document = json.loads(_spec(request, _problems(request)[-1], RUN).to_json())
    JobSpec.model_validate_json(json.dumps(document))
    bad = []
    for place, node in _places(document):
        if isinstance(node, dict):
            bad.append(_with(document, place, node | {"seed": 1}))
        elif isinstance(node, int | float):
            bad += [_with(document, place, value) for value in (math.nan, math.inf, -math.inf, str(node), True)]
    assert len(bad) > 100
    for text in bad:
        with pytest.raises(ValidationError):
            JobSpec.model_validate_json(text)


def test_a_method_of_a_whole_table_is_refused() -> None:
    request = REQUESTS[1]
    document = json.loads(_spec(request, _problems(request)[0], RUN).to_json())
    document["method"] = {"name": "profile", "bins": 4}
    with pytest.raises(ValidationError, match="statistic"):
        JobSpec.model_validate_json(json.dumps(document))


@pytest.mark.parametrize(("field", "value"), [("d", 3), ("row_norm", 0.2), ("columns", {"widths": [6]})])
def test_a_problem_of_another_matrix_is_refused(field: str, value: Any) -> None:
    document = json.loads(_spec(REQUESTS[1], _problems(REQUESTS[1])[0], RUN).to_json())
    document["problem"][field] = value
    with pytest.raises(ValidationError):
        JobSpec.model_validate_json(json.dumps(document))


def test_an_output_is_a_list_of_finite_coefficients_or_is_not_released() -> None:
    spec = _spec(REQUESTS[1], _problems(REQUESTS[1])[0], RUN)
    transcript = plan_to_json(spec.release_plan.plan)

    def read(coefficients: Any) -> release.Result:
        return release.read(spec.to_json(), json.dumps({"coefficients": coefficients, "transcript": transcript}))

    assert read([0.25, -1.0]).coefficients == (0.25, -1.0)
    for wrong in ({"0": 0.25}, "0.25", 0.25, None, [math.nan], [math.inf], [1e301], ["0.25"], [True], [[0.25]]):
        with pytest.raises(release.Unreleasable, match="of ours"):
            read(wrong)


def test_categories_without_released_support_are_published_with_coefficient_0() -> None:
    """Of the means that the run itself released; with a number of them that is not the model's nothing is released."""
    spec = _spec(REQUESTS[1], _problems(REQUESTS[1])[0], RUN)
    assert isinstance(spec.design, Design)
    size, transcript = spec.problem.size, plan_to_json(spec.release_plan.plan)
    job = Mock(spec=JobRow, id="job_1", dataset_id="ds_1")

    def released(values: list[float]) -> Model:
        means = {"values": values, "noise_std": 0.25}
        output = {"coefficients": [1.5] * size, "transcript": transcript, "means": means}
        return Model.model_validate_json(release.document(job, release.read(spec.to_json(), json.dumps(output))))

    model = released([0.499] * (size - 1))
    is_category = [term for term in model.named if " = " in term]
    assert is_category
    assert {model.named[term] for term in is_category} == {0.0}
    assert {value for term, value in model.named.items() if term not in is_category} == {1.5}
    assert set(released([0.5] * (size - 1)).named.values()) == {1.5}
    with pytest.raises(release.Unreleasable):
        released([0.5] * size)


def test_a_job_runs_with_the_design_that_was_priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored request is not read again, and no second design is made."""
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    job = world.submit(dataset, features=["sex"], row_norm=1.25).id
    with world.database.write() as connection:
        connection.execute(sa.text("update jobs set request = '{}'"))
    monkeypatch.setattr(Design, "of", None)
    designs = []

    def loaded(design: Design, *others: Any) -> Any:
        designs.append(design)
        return load(design, *others)

    monkeypatch.setattr("app.worker.execute.load", loaded)
    dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine())
    dispatcher.step()
    run_out(world, dispatcher)
    assert world.job(job).state == "done"
    [design] = designs
    assert (design.positions, design.target_position, design.stored, design.row_norm) == ((1,), 2, 3, 1.25)
    model = Model.model_validate_json(service.released(world.database, world.analyst, job, "model"))
    assert ([f.name for f in model.features], model.target.name, model.row_norm) == (["sex"], "income", 1.25)
    world.check()


def test_a_preparation_is_stored_and_its_moments_must_be_in_the_plan() -> None:
    request = REQUESTS[0]
    document = json.loads(_spec(request, _problems(request)[0], RUN).to_json())
    del document["preparation"]  # as in jobs stored before requests had a preparation
    assert JobSpec.model_validate_json(json.dumps(document)).preparation == Declared()
    moments = ("means", "spread", "variances")
    queries = [{"name": name, "count": 1, "mechanism": "gaussian", "noise_multiplier": 9.0} for name in moments]
    document |= {"preparation": {"name": "private"}}
    document["release_plan"]["plan"]["queries"] += queries
    _assert_restored(JobSpec.model_validate_json(json.dumps(document)))
    document["release_plan"]["plan"]["queries"].pop()
    with pytest.raises(ValidationError):
        JobSpec.model_validate_json(json.dumps(document))


@pytest.mark.slow
def test_a_standardised_model_is_in_the_declared_columns_and_says_so(tmp_path: Path) -> None:
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    jobs = [
        world.submit(
            dataset, privacy={"epsilon": 0.4}, method={"name": "dp_gd", "steps": 3}, preparation=preparation
        ).id
        for preparation in (None, {"name": "declared"})
    ]
    dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine())
    dispatcher.step()
    run_out(world, dispatcher)
    models = [Model.model_validate_json(service.released(world.database, world.analyst, job, "model")) for job in jobs]
    assert [len(model.coefficients) for model in models] == [len(models[0].coefficients)] * 2
    assert "standardized coefficients" in str(models[0].preparation)
    assert "as declared" in str(models[1].preparation)
    world.check()
