"""Contracts of every loss, regularizer, domain and method, and of the oracle between them."""

import math
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting import Privacy
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.data_access.oracles import DataOracles
from solvers.data_access.sampled import SampledOracle
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall
from solvers.losses import HuberHinge, Logistic, Loss, Quantile, Softmax, Squared
from solvers.methods import DpGd, DpSvrg, Method, NoisyMirrorDescent
from solvers.regularizers import L1, L2, ElasticNet, NoRegularizer, Regularizer
from tests.support.batches import ScriptedBatches, own_batches
from tests.support.members import every
from tests.support.noiseless import ExactAnswer, noiseless
from tests.support.runs import as_method, run_quote
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]
LOSSES: list[Loss] = [Logistic(), Squared(), Squared(0.2), HuberHinge(0.1), Quantile(0.9, 0.2), Softmax(3)]
REGULARIZERS: list[Regularizer] = every(Regularizer, L2(0.0), L2(0.3), L1(0.1), ElasticNet(0.1, 0.3))
DOMAINS: list[Domain] = every(Domain, L2Ball(1e-3), L2Ball(2.0), L1Ball(2.0), LinfBall(2.0))
KINDS = ["plain", "one class", "constant columns", "zeros", "absurd", "all broken"]
METHODS: list[Method] = [
    DpGd(),
    DpSvrg(),
    DpGd(steps=1),
    DpSvrg(epochs=1, inner_steps=1, batch=1),
    DpSvrg(batch=60),
    DpSvrg(batch=20, epochs=2, inner_steps=5, form="printed"),
    DpSvrg(step_rule="barzilai_borwein"),
    NoisyMirrorDescent(batch=6),
    NoisyMirrorDescent(passes=2, batch=3, form="ordered"),
]

strengths = st.floats(0, 1e6)
regularizers = st.one_of(
    st.just(NoRegularizer()), strengths.map(L2), strengths.map(L1), st.builds(ElasticNet, strengths, strengths)
)
radii = st.floats(1e-6, 1e6)
domains = st.one_of(*(st.just(Free()) if kind is Free else radii.map(kind) for kind in get_args(Domain)))
absurd = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300, 1e155, 1e99, 5e-324, -0.0])
values = st.one_of(absurd, st.floats(-3, 3))
classes = st.sampled_from([0.0, 1.0, 2.0])


def is_at_most(a: float, b: float) -> bool:
    return a <= b + 1e-9 * (1 + abs(b))


@pytest.mark.slow
@given(
    loss=st.sampled_from(LOSSES),
    rows=st.lists(st.lists(values, min_size=2, max_size=2), min_size=6, max_size=6),
    targets=st.lists(st.one_of(values, classes), min_size=6, max_size=6),
    replaced=st.tuples(values, values, st.one_of(values, classes)),
    w=st.lists(st.one_of(st.floats(-3, 3), st.floats(-1e30, 1e30)), min_size=6, max_size=6).map(np.array),
    anchor=st.lists(st.floats(-10, 10), min_size=6, max_size=6).map(np.array),
    row_norm=st.floats(1e-3, 1e3),
)
@settings(max_examples=150, deadline=None)
def test_replacing_one_record_moves_no_value_by_more_than_its_sensitivity(
    loss: Loss,
    rows: list[list[float]],
    targets: list[float],
    replaced: tuple[float, float, float],
    w: Vector,
    anchor: Vector,
    row_norm: float,
) -> None:
    """The value before noise moves by at most twice the bound, for any record, replacement and w.

    If a record joins a batch, the value moves by at most the bound.
    """
    problem = Problem(loss, n=6, d=2, row_norm=row_norm)
    w, anchor = w[: problem.size], anchor[: problem.size]
    answers_of_neighbors = [_answers(problem, np.array(rows), np.array(targets), w, anchor)]
    rows, targets = [list(row) for row in rows], list(targets)
    rows[2], targets[2] = list(replaced[:2]), replaced[2]
    answers_of_neighbors.append(_answers(problem, np.array(rows), np.array(targets), w, anchor))
    for (value, bound), (neighbor_value, neighbor_bound) in zip(*answers_of_neighbors, strict=True):
        assert bound == neighbor_bound  # the noise does not depend on the data
        assert np.isfinite(value).all()
        assert float(np.linalg.norm(value - neighbor_value)) <= 2 * bound
    for answers in answers_of_neighbors:
        for with_row, without_row in (answers[1:3], answers[3:5], answers[5:]):
            assert float(np.linalg.norm(with_row.value - without_row.value)) <= with_row.bound


def _answers(problem: Problem, X: Vector, y: Vector, w: Vector, anchor: Vector) -> list[ExactAnswer]:
    """Return the exact answers over batches of all rows, and of all but the third row."""

    plan_ = Plan((PlannedQuery("f", 9, Gaussian(), 1.0), PlannedQuery("b", 9, PoissonGaussian(0.5), 1.0)))
    noise = ScriptedBatches(SeededBits(1))
    noise.batch = np.arange(6)
    oracle = SampledOracle(problem, inputs.of_arrays(X, y, problem), plan_, noise)
    with own_batches(), noiseless() as answers:
        oracle.gradient("f", w)
        oracle.sampled_gradient("b", w)
        noise.batch = np.array([0, 1, 3, 4, 5])
        oracle.sampled_gradient("b", w)
        centring = problem.is_smooth and problem.is_convex and problem.outputs == 1
        for change in (oracle.sampled_change, oracle.centred_change if centring else oracle.sampled_change):
            noise.batch = np.arange(6)
            change("b", w, anchor + w)
            noise.batch = np.array([0, 1, 3, 4, 5])
            change("b", w, anchor + w)
    # If w is the anchor, changes read no data.
    return answers if len(answers) == 7 else answers + [ExactAnswer(np.zeros(2), 1.0)] * 4


def dataset(kind: str, n: int, d: int) -> tuple[Vector, Vector]:
    """Data that no run may fail on."""
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, (n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if kind == "one class":
        y[:] = 1.0
    elif kind == "constant columns":
        X[:] = X[0]
    elif kind == "zeros":
        X[:] = 0.0
    elif kind == "absurd":
        X[::3] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e120, 5e-324], X[::3].shape)
        y[::2] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 5e-324], y[::2].shape)
    elif kind == "all broken":
        X[:], y[:] = np.nan, np.nan
    return X, y


def every_pair(kind: str) -> list[tuple[Regularizer, Domain]]:
    """On absurd data all pairs, on the others each regularizer and each domain at least once, shifted by the kind."""
    if kind == "absurd":
        return list(product(REGULARIZERS, DOMAINS))
    shift = KINDS.index(kind)
    longest = max(len(REGULARIZERS), len(DOMAINS))
    return [(REGULARIZERS[(j + shift) % len(REGULARIZERS)], DOMAINS[j % len(DOMAINS)]) for j in range(longest)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_every_method_ends_finite_and_within_its_plan(method: Method, loss: Loss, kind: str) -> None:
    for regularizer, domain in every_pair(kind):
        problem = Problem(loss, regularizer, domain, n=60, d=4, row_norm=1.5)
        quote = plan(method, problem, Privacy(1.0, 1e-5))
        data = inputs.of_arrays(*dataset(kind, 60, 4), problem)
        heard: list[int] = []
        w, transcript, _ = run_quote(quote, data, 2, on_answer=heard.append)
        assert np.isfinite(w).all()
        assert is_at_most(float(np.linalg.norm(w)), domain.diameter(problem.size))
        assert quote.release.plan.covers(transcript)
        assert heard == list(range(1, sum(q.answers for q in transcript.queries) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_plan_without_the_last_answer_stops_every_method(method: Method) -> None:
    problem = Problem(Logistic(), n=60, d=4, row_norm=1.5)
    quote = plan(method, problem, Privacy(1.0, 1e-5))
    *queries, last = quote.release.plan.queries
    if last.count > 1:
        queries.append(PlannedQuery(last.name, last.count - 1, last.mechanism, last.noise_multiplier))
    data = inputs.of_arrays(*dataset("plain", 60, 4), problem)
    with pytest.raises(OutOfPlan):
        quote.method.answer(DataOracles(data, Plan(tuple(queries)), Noise(SeededBits(2))))


@pytest.mark.slow
@pytest.mark.parametrize("method", [DpGd(), DpSvrg()], ids=lambda m: m.name)
@given(
    epsilon=st.floats(1e-3, 100),
    delta=st.floats(1e-12, 1e-2),
    n=st.integers(1, 10**10),
    d=st.integers(1, 5000),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_resolving_is_final_and_in_range(
    method: Method, epsilon: float, delta: float, n: int, d: int, data: Any
) -> None:
    problem = Problem(
        data.draw(st.sampled_from(LOSSES)),
        data.draw(regularizers),
        data.draw(domains.filter(lambda domain: domain.diameter(d) > 0)),  # a simplex of one coordinate is a point
        n=n,
        d=d,
        row_norm=data.draw(st.floats(1e-6, 1e6)),
    )
    resolved: Any = method.resolve(problem, Privacy(epsilon, delta))
    assert as_method(resolved).resolve(problem, Privacy(epsilon, delta)) == resolved
    assert 0 < resolved.step * problem.L <= 1 + 1e-12
    assert 0 < resolved.gradient_evaluations(problem) < math.inf
    for query in resolved.queries(problem):
        assert 1 <= query.count <= 5000
