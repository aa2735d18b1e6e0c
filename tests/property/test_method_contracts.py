"""Contracts of every method, as the union names them: none is left out by hand."""

import json
from collections import Counter
from dataclasses import asdict, fields, replace
from itertools import product
from typing import Annotated, Any, get_args

import numpy as np
import pytest
from pydantic import Field, TypeAdapter, ValidationError

from accounting import Privacy
from accounting.errors import OutOfRange
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.privacy import Relation
from accounting.records.receipt import recompute
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access import access, allocated, inputs, lattice_sums, sampled, sums
from solvers.data_access.data import Data, Slots, listed
from solvers.data_access.meter import Meter
from solvers.domains import Free, LinfBall
from solvers.errors import Unsuitable
from solvers.losses import Hinge, Logistic, Squared
from solvers.methods import DpSvrg, Method, Run
from solvers.preparation import ByProfile, Declared, Private
from solvers.preparation.moments import Moments
from solvers.problem import Vector
from solvers.regularizers import L2
from solvers.solve import PlannedRun, WorkLimits
from tests.support.coupled import complaints_of_each
from tests.support.members import DEFAULT_METHODS, PROMISES
from tests.support.receipts import make
from tests.support.runs import as_method, run_quote

N = 400
PROBLEMS = [
    Problem(loss, L2(0.05), domain, n=N, d=2, row_norm=1.0)
    for loss in (Logistic(), Squared(), Hinge())
    for domain in (Free(), LinfBall(1.0))
]
PROBLEMS += [Problem(Logistic(), L2(0.05), n=N, d=3, row_norm=2.0, columns=Columns((1, 1)))]
RELEASED = ByProfile(Moments((0.1, -0.2), (0.3, 0.4), (0.01, 0.01)))
RUN: TypeAdapter[Run] = TypeAdapter(Annotated[Run, Field(discriminator="name")])


def cells(method: Method) -> list[tuple[Problem, Privacy]]:
    """Return the problems and promises that the method accepts: at least one pair."""
    pairs = []
    for problem in PROBLEMS:
        for privacy in PROMISES:
            try:
                method.resolve(problem, privacy)
            except Unsuitable:
                continue
            pairs.append((problem, privacy))
    assert pairs
    return pairs


def quotes(method: Method) -> list[tuple[Problem, Privacy, PlannedRun]]:
    """Return the quotes of all cells, with the default preparation and, if possible, with rows as declared."""
    all_quotes = [(problem, privacy, plan(method, problem, privacy)) for problem, privacy in cells(method)]
    if not method.standardises:
        all_quotes += [
            (problem, privacy, plan(method, problem, privacy, preparation=Declared()))
            for problem, privacy in cells(method)
            if problem.columns is not None
        ]
    return all_quotes


every = pytest.mark.parametrize(
    "method", DEFAULT_METHODS, ids=lambda m: f"{m.name}-{getattr(m, 'release', '')}".strip("-")
)


@pytest.mark.slow
@every
def test_a_resolved_run_has_no_defaults_and_is_restored_from_its_json(method: Method) -> None:
    for problem, privacy in cells(method):
        resolved = method.resolve(problem, privacy)
        assert type(resolved) in get_args(Run)
        assert resolved.name == method.name
        text = json.dumps(asdict(resolved))
        assert "null" not in text
        assert RUN.validate_json(text) == resolved
        request = as_method(resolved)  # as a request would state it
        assert type(request) is type(method)
        assert request.resolve(problem, privacy) == resolved


@every
def test_a_stored_run_is_read_strictly(method: Method) -> None:
    document = asdict(method.resolve(*cells(method)[0]))
    for field in fields(method):
        if field.name == "name":
            continue
        for wrong in (None, "7", [1]):
            with pytest.raises(ValidationError):
                RUN.validate_json(json.dumps(document | {field.name: wrong}))
    for wrong_document in (document | {"more": 1}, document | {"name": "none of them"}):
        with pytest.raises(ValidationError):
            RUN.validate_json(json.dumps(wrong_document))


class Certain:
    """An accountant that is asked nothing."""

    name, version = "certain", "1"

    def supports(self, *_: Any) -> bool:
        return True

    def epsilon(self, *_: Any) -> float:
        return 1.0


@pytest.mark.slow
@every
def test_plans_are_valid_for_every_number_of_records(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest receipts for few records are not refused for batches or parts smaller than one record."""
    monkeypatch.setattr("accounting.records.recomputation.ACCOUNTANTS", (Certain(),))
    asked_for: Any = method
    small = [replace(asked_for, batch=1)] if hasattr(method, "batch") else []
    count = 0
    for n, problem, privacy in product((*range(1, 50, 3), 49, 97, 103, 400, 4003), PROBLEMS, PROMISES):
        for variant, relation in product((method, *small), get_args(Relation)):
            try:
                there = replace(problem, n=n, relation=relation)
                queries = variant.resolve(there, privacy).queries(there)
            except (Unsuitable, OutOfRange):
                continue
            planned = Plan(tuple(PlannedQuery(q.name, q.count, q.mechanism, 50.0) for q in queries), relation)
            release = ReleasePlan(planned, 1.0, privacy.delta, "certain", "1")
            assert recompute(make(release_plan=release, transcript=planned, records=n)).epsilon == 1.0
            count += 1
    assert count


@pytest.mark.slow
@every
def test_a_quote_states_every_query_with_its_noise(method: Method) -> None:
    for problem, privacy, quote in quotes(method):
        queries = quote.method.queries(quote.met)
        assert set(quote.method.bounds(quote.met)) == {q.name for q in queries}
        planned = quote.release.plan.queries
        assert {q.name for q in planned} == {q.name for q in queries} | set(quote.preparation.bounds(problem))
        assert len(quote.noise_stds) == len(planned)
        assert all(std >= 0 and np.isfinite(std) for std in quote.noise_stds)
        assert quote.release.epsilon <= privacy.epsilon
        assert quote.risk_bound.statement
        assert quote.preparation_reason
        limits = WorkLimits(quote.gradient_evaluations, sum(q.answers for q in planned))
        asked_for: Any = {} if method.standardises else {"preparation": quote.preparation}
        assert plan(method, problem, privacy, limits=limits, **asked_for).release == quote.release
        for tight in (WorkLimits(limits.evaluations * 0.999), WorkLimits(answers=limits.answers - 1)):
            with pytest.raises(OutOfRange):
                plan(method, problem, privacy, limits=tight, **asked_for)


class Counted:
    """Counts of per-record gradients, and the bound of every noisy answer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.gradients = 0
        self.bounds: list[tuple[str, float, int]] = []
        exact, lattice, one_pass = sums.gradient_sum, lattice_sums.lattice_mean_gradients, access.DataAccess.one_pass
        perturb = Meter.perturb

        def gradient_sum(data: Data, slots: Slots, w: Vector, *anchor: Any) -> Vector:
            self.gradients += len(listed(slots)) * (2 if anchor else 1)
            return exact(data, slots, w, *anchor)

        def lattice_mean_gradients(data: Data, points: Vector, *arguments: Any) -> Vector:
            self.gradients += len(points) * data.problem.n
            return lattice(data, points, *arguments)

        def passed(data: access.DataAccess, rows: range, start: Vector, step: float) -> Vector:
            self.gradients += len(rows)
            return one_pass(data, rows, start, step)

        def noisy(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
            self.bounds.append((planned.name, bound, value.size if value.ndim == 1 else value.shape[1]))
            return perturb(meter, planned, value, bound)

        for module in (access, allocated, sampled, sums):
            patch.setattr(module, "gradient_sum", gradient_sum)
        patch.setattr(lattice_sums, "lattice_mean_gradients", lattice_mean_gradients)
        patch.setattr(access.DataAccess, "one_pass", passed)
        patch.setattr(Meter, "perturb", noisy)


@pytest.mark.slow
@every
def test_a_run_keeps_its_plan_its_bounds_and_its_cost(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transcript is within the plan, bounds are those of the quote, and the number of gradients is as quoted."""
    rng = np.random.default_rng(4)
    plain = rng.normal(size=(N, 2))
    laid_out = np.column_stack((np.clip(plain, -1, 1), np.ones(N)))
    for problem, _, quote in quotes(method):
        with monkeypatch.context() as patch:
            counted = Counted(patch)
            X = plain if problem.columns is None else laid_out
            data = inputs.of_arrays(X, np.sign(plain @ [1.0, -2.0]), quote.problem)
            w, transcript, _ = run_quote(quote, data, 3)
        if quote.met == quote.problem:
            assert problem.domain.project(w) == pytest.approx(w, abs=1e-12)
        assert quote.release.plan.covers(transcript)
        expected = quote.gradient_evaluations
        assert counted.gradients <= expected + 6 * (2 * expected) ** 0.5  # a batch's size is Poisson, or less spread
        bounds = quote.method.bounds(quote.met) | quote.preparation.bounds(problem)
        for name, bound, size in counted.bounds:
            assert bound <= bounds[name][0] * (1 + 1e-9)  # rounding may grow with coordinates released on the way
            assert size == bounds[name][1]
        assert {name for name, _, _ in counted.bounds} <= set(Counter(bounds))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [*DEFAULT_METHODS, DpSvrg(form="printed", epochs=1, inner_steps=4, batch=40)],
    ids=lambda method: str(method.name),
)
@pytest.mark.parametrize("slope_limit", [1.0, 0.3])
@pytest.mark.parametrize("asked_for", [None, RELEASED], ids=["private", "profile"])
def test_with_private_moments_no_value_moves_by_more_than_its_bound(
    method: Method, slope_limit: float, asked_for: ByProfile | None
) -> None:
    problem, privacy = PROBLEMS[-1], PROMISES[0]
    try:
        quote = plan(method, problem, privacy, slope_limit=slope_limit, preparation=asked_for)
    except Unsuitable:
        return
    if not isinstance(quote.preparation, Private | ByProfile):
        return
    rng = np.random.default_rng(8)
    X = np.column_stack((rng.uniform(-1, 1, (N, 2)), np.ones(N)))
    y = np.sign(X @ [1.0, -2.0, 0.1])
    X[7], y[7] = (-1.0, -1.0, 1.0), 1.0
    replacements = ((1.0, 1.0, 1.0), 1.0), ((1.0, 1.0, 1.0), -1.0), ((0.2, -1.0, 1.0), -1.0)
    assert (
        complaints_of_each(quote, X, y, [((np.array(corner), target), None) for corner, target in replacements]) == []
    )
