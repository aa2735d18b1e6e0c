"""Preparation: its plan, the rows that the method receives, and models in the original columns."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, moment_bounds, plan, solve
from solvers.columns import Columns
from solvers.data_access import frames, inputs
from solvers.data_access.data import Data
from solvers.data_access.meter import Meter
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.domains import L2Ball, LinfBall
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Absolute, Logistic, Softmax, Squared
from solvers.methods import (
    AdaptiveGd,
    AdaSsp,
    DpGd,
    DpSvrg,
    InverseSensitivity,
    Localization,
    Method,
    NoisySgd,
    ObjectivePerturbation,
    PhasedSgd,
)
from solvers.preparation import ByMethod, Declared, Private
from solvers.preparation.private import ROW_NORM, STRETCH
from solvers.regularizers import L2
from solvers.selection import Auto
from solvers.solve import run
from solvers.statistics import Profile
from tests.support.coupled import complaints
from tests.support.mutants import used_before_noise
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]
COLUMNS = Columns((1, 3, 1))
N = 3000
PRIVACY = Privacy(1.0, 1e-6)
PROBLEM = Problem(Logistic(), n=N, d=COLUMNS.d, row_norm=COLUMNS.row_norm, columns=COLUMNS)


@pytest.fixture(scope="module")
def rows() -> tuple[Vector, Vector]:
    """A number near its end, a lopsided block, a number in the middle; two classes."""
    rng = np.random.default_rng(2)
    first, second = np.clip(rng.normal(-0.9, 0.03, N), -1, 1), np.clip(rng.normal(0.1, 0.3, N), -1, 1)
    X = np.column_stack((first, np.eye(3)[rng.choice(3, N, p=(0.8, 0.15, 0.05))], second, np.ones(N)))
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-(first + 0.9) / 0.03 - 3 * second)), 1.0, -1.0)
    return X, y


METHODS: list[Method] = [
    DpGd(),
    DpSvrg(),
    NoisySgd(),
    ObjectivePerturbation(),
    Localization(),
    PhasedSgd(),
    DpGd(release="random"),
]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}")
def test_the_answer_is_the_methods_own_on_rows_that_were_standardised_by_hand(
    method: Method, rows: tuple[Vector, Vector]
) -> None:
    X, y = rows
    quote = plan(method, PROBLEM, PRIVACY)
    data, plan_ = inputs.of_arrays(X, y, PROBLEM), quote.release.plan
    actual, *_ = run_quote(quote, data, 1)

    noise = Noise(SeededBits(1))
    moments_plan = Plan(tuple(q for q in plan_.queries if q.name in ("means", "spread", "variances")))
    frame = Private().frame(StandardisedOracle(PROBLEM, data, moments_plan, noise), PROBLEM)
    Z = np.column_stack(((X[:, :-1] - frame.center) * frame.scale, np.full(N, frame.constant)))
    Z *= (ROW_NORM / np.maximum(np.linalg.norm(Z, axis=1), ROW_NORM))[:, None]
    met = Problem(Logistic(), n=N, d=COLUMNS.d, row_norm=ROW_NORM, stretch=STRETCH)
    own = replace(quote.release, plan=Plan(tuple(q for q in plan_.queries if q not in moments_plan.queries)))
    w, *_ = run(quote.method, met, inputs.of_arrays(Z, y, met), own, noise)
    by_hand = np.append(w[:-1] * frame.scale, w[-1] * frame.constant - (w[:-1] * frame.scale) @ frame.center)
    # the rows are rounded elsewhere, and an answer may then be another point of its lattice
    assert np.linalg.norm(actual - by_hand) <= 1e-5 * np.linalg.norm(by_hand)


@pytest.mark.parametrize("method", [DpGd(steps=3), NoisySgd(steps=3, batch=100), Localization()], ids=lambda m: m.name)
def test_the_transcript_names_the_moments_and_the_oracle_of_the_method_has_none(
    method: Method, rows: tuple[Vector, Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transcript of the receipt names every answer, and no method can request a moment again."""
    opened: list[set[str]] = []
    opens = Meter.__init__

    def opening(meter: Meter, plan_: Plan, *arguments: Any) -> None:
        opened.append({query.name for query in plan_.queries})
        opens(meter, plan_, *arguments)

    monkeypatch.setattr(Meter, "__init__", opening)
    quote = plan(method, PROBLEM, PRIVACY)
    data = inputs.of_arrays(*rows, quote.problem)
    _, transcript, _ = run_quote(quote, data)
    planned = quote.release.plan.queries
    assert {query.name: query for query in transcript.queries} == {query.name: query for query in planned}
    moments_asked, own = opened
    assert moments_asked == {"means", "spread", "variances"}
    assert own == {query.name for query in planned} - moments_asked


def test_the_moments_get_their_shares_of_one_price() -> None:
    for method in (DpGd(), ObjectivePerturbation(), Localization()):
        queries = plan(method, PROBLEM, PRIVACY).release.plan.queries
        spent = {q.name: q.count * (2 / q.noise_multiplier) ** 2 for q in queries}
        whole = sum(spent.values())
        for name, share in (("means", 0.02), ("spread", 0.01), ("variances", 0.05)):
            assert spent[name] / whole == pytest.approx(share, rel=1e-6)
    blocks = Problem(Logistic(), n=N, d=6, row_norm=2.0, columns=Columns((3, 2)))
    spent = {
        q.name: q.count * (2 / q.noise_multiplier) ** 2 for q in plan(DpGd(), blocks, PRIVACY).release.plan.queries
    }
    assert set(spent) == {"gradient", "means"}
    assert spent["means"] / sum(spent.values()) == pytest.approx(0.02, rel=1e-6)


@pytest.mark.slow
def test_sampled_answers_pay_for_the_moments_in_the_same_certified_plan() -> None:
    """The price of the whole is the target, and gradients lose about the moments' 8 % of mu^2, no more."""
    random = DpGd(steps=50, release="random")
    for method in (NoisySgd(steps=200, batch=100), DpSvrg(epochs=2, inner_steps=100, batch=100), random):
        prepared, plain = plan(method, PROBLEM, PRIVACY), plan(method, PROBLEM, PRIVACY, preparation=Declared())
        assert 0.98 < prepared.release.epsilon <= 1.0
        noise = prepared.release.plan.queries[-4].noise_multiplier / plain.release.plan.queries[-1].noise_multiplier
        assert 1.0 < noise < 1.08


def test_everything_but_the_answers_is_fixed_at_the_quote() -> None:
    """Steps, step sizes and noise are those of rows of the public norm, whatever the declared coding's was."""
    quote = plan(DpGd(), PROBLEM, PRIVACY)
    met = Problem(Logistic(), n=N, d=COLUMNS.d, row_norm=ROW_NORM, stretch=STRETCH)
    assert quote.met == met
    assert quote.method == DpGd().resolve(met, PRIVACY)
    assert quote.gradient_evaluations == quote.method.gradient_evaluations(met) + 3 * N


def test_rows_in_a_frame_are_no_longer_than_the_public_norm_and_typical_ones_are_not_shortened(
    rows: tuple[Vector, Vector],
) -> None:
    X, y = rows
    quote = plan(DpGd(), PROBLEM, Privacy(10.0, 1e-6))
    moments_plan = Plan(tuple(q for q in quote.release.plan.queries if q.name != "gradient"))
    data = inputs.of_arrays(X, y, PROBLEM)
    frame = Private().frame(StandardisedOracle(PROBLEM, data, moments_plan, Noise(SeededBits(4))), PROBLEM)
    Z = np.column_stack(((X[:, :-1] - frame.center) * frame.scale, np.full(N, frame.constant)))
    lengths = np.linalg.norm(Z, axis=1)
    assert np.sqrt((lengths**2).mean()) == pytest.approx(ROW_NORM, rel=0.05)
    assert (lengths <= ROW_NORM).mean() > 0.5


@pytest.mark.parametrize(
    ("frame", "row_norm"),
    [
        (Frame(np.full(5, 2.0), np.ones(5), 1.0), 1.0),
        (Frame(np.zeros(5), np.full(5, math.nan), 1.0), 1.0),
        (Frame(np.zeros(5), np.zeros(5), 1.0), 1.0),
        (Frame(np.zeros(5), np.ones(5), math.inf), 1.0),
    ],
)
def test_a_frame_that_no_released_numbers_make_is_refused(
    frame: Frame, row_norm: float, rows: tuple[Vector, Vector]
) -> None:
    with pytest.raises(Unsuitable):
        frames.framed(inputs.of_arrays(*rows, PROBLEM), frame, row_norm)


def test_answers_that_are_all_noise_still_make_a_frame() -> None:
    """Clamped to public ranges: a mean far outside, a negative or a huge variance."""

    class FixedAnswers:
        share = 1.0

        def __init__(self, number: float) -> None:
            self.number = number

        def planned(self, query: str):  # type: ignore[no-untyped-def]
            return next(q for q in plan(DpGd(), PROBLEM, PRIVACY).release.plan.queries if q.name == query)

        def means(self, _: str) -> Vector:
            return np.full(5, self.number)

        def spread(self, _: str, center: Vector) -> float:
            assert (np.abs(center) <= 1).all()
            return self.number

        def variances(self, _: str, center: Vector, radius: float) -> Vector:
            assert radius > 0
            return np.full(len(center[[0, 4]]), self.number)

    for number in (-1e12, -1.0, 0.0, 1.0, 1e12):
        frame = Private().frame(FixedAnswers(number), PROBLEM)  # type: ignore[arg-type]
        assert (np.abs(frame.center) <= 1).all()
        assert ((frame.scale > 0) & np.isfinite(frame.scale)).all()


def test_a_preparation_that_does_not_fit_is_replaced_by_the_declared_coding_with_a_reason() -> None:
    undeclared = Problem(Logistic(), n=N, d=6, row_norm=2.0)
    clipped = replace(PROBLEM, row_norm=1.0)
    grid = Problem(Absolute(), domain=LinfBall(1.0), n=N, d=2, row_norm=math.sqrt(2), columns=Columns((1,)))
    alone = Problem(Logistic(), n=N, d=1, row_norm=1.0, columns=Columns(()))
    cases: list[tuple[Method, Problem, Privacy, str]] = [
        (DpGd(), undeclared, PRIVACY, "declared columns"),
        (DpGd(), clipped, PRIVACY, "clipped"),
        (DpGd(), alone, PRIVACY, "no column"),
        (Localization(), PROBLEM, Privacy(1.0), "delta"),
        (Localization(noise="laplace"), PROBLEM, PRIVACY, "pure"),
        (InverseSensitivity(grid=16), grid, PRIVACY, "pure"),
    ]
    for method, problem, privacy, why in cases:
        quote = plan(method, problem, privacy)
        assert quote.preparation == Declared()
        assert why in quote.preparation_reason
        assert quote.met == quote.problem == problem
        with pytest.raises(Unsuitable, match=why):
            plan(method, problem, privacy, preparation=Private())
        assert plan(method, problem, privacy, preparation=Declared()).preparation_reason == "requested"


def test_a_method_that_standardises_by_itself_states_it_and_refuses_rows_as_declared() -> None:
    for preparation in (None, Private()):
        assert plan(AdaptiveGd(), PROBLEM, PRIVACY, preparation=preparation).preparation == ByMethod()
    with pytest.raises(Unsuitable, match="standardizes rows itself"):
        plan(AdaptiveGd(), PROBLEM, PRIVACY, preparation=Declared())


def test_auto_prepares_its_choice_and_leaves_rows_as_declared_if_requested() -> None:
    strong = replace(PROBLEM, regularizer=L2(0.5))
    assert plan(Auto(), strong, PRIVACY).preparation == Private()
    assert plan(Auto(), PROBLEM, PRIVACY).preparation == ByMethod()
    declared = plan(Auto(), PROBLEM, PRIVACY, preparation=Declared())
    assert (declared.preparation, declared.method.name) == (Declared(), "dp_gd")
    assert declared.method == DpGd().resolve(PROBLEM, PRIVACY)


@pytest.mark.slow
def test_it_learns_more_than_the_declared_coding(rows: tuple[Vector, Vector]) -> None:
    """One number hardly varies within its declared range."""
    X, y = rows
    for method in (DpGd(), ObjectivePerturbation()):
        w, plain = (
            solve(method, PROBLEM, X, y, Privacy(4.0, 1e-6), preparation).coefficients
            for preparation in (None, Declared())
        )
        loss, plain_loss = (float(Logistic().value(X @ v, y).mean()) for v in (w, plain))
        assert loss < plain_loss - 0.02


def test_numbers_and_several_classes_are_fitted(rows: tuple[Vector, Vector]) -> None:
    X, _ = rows
    target = np.clip(5 * (X[:, 0] + 0.9) + 0.5 * X[:, 4], -1, 1)
    wide = Privacy(20.0, 1e-6)
    w = solve(AdaSsp(), replace(PROBLEM, loss=Squared()), X, target, wide).coefficients
    assert ((X @ w - target) ** 2).mean() < 0.2 * target.var()
    kinds = (X[:, 4] > 0).astype(float) + (X[:, 4] > 0.3)
    W = solve(DpGd(), replace(PROBLEM, loss=Softmax(3)), X, kinds, wide).coefficients.reshape(3, -1)
    assert (np.argmax(X @ W.T, axis=1) == kinds).mean() > 0.7


def test_penalties_and_domains_act_on_standardised_coefficients(rows: tuple[Vector, Vector]) -> None:
    """On a tiny ball the answer is that ball's image in the original columns, not the ball."""
    inside = replace(PROBLEM, domain=L2Ball(1.0))
    quote = plan(DpGd(), inside, Privacy(10.0, 1e-6))
    assert "standardized coefficients" in quote.preparation.statement
    w, *_ = run_quote(quote, inputs.of_arrays(*rows, inside))
    assert np.linalg.norm(w) > 1.0


def test_answers_are_counted_on_from_the_moments(rows: tuple[Vector, Vector]) -> None:
    quote = plan(DpGd(steps=3), PROBLEM, PRIVACY)
    heard: list[int] = []
    run_quote(quote, inputs.of_arrays(*rows, PROBLEM), on_answer=heard.append)
    assert sorted(set(heard) - {0}) == [1, 2, 3, 4, 5, 6]


def unshortened(data: Data, frame: Frame, row_norm: float) -> Data:
    """Mutant: rows keep their length."""
    return replace(FRAMED(data, frame, 1e3 * row_norm), problem=FRAMED(data, frame, row_norm).problem)


def shortened_together(data: Data, frame: Frame, row_norm: float) -> Data:
    """Mutant: shorten each row by a factor that depends on all rows."""
    own = FRAMED(data, frame, row_norm)
    factor = 1.0 + float(rows_of(data)[:, 0].max() > 0.5)
    return FRAMED(data, Frame(frame.center, frame.scale * factor, frame.constant), own.problem.row_norm)


FRAMED = frames.framed
DIAMETER, VARIANCE = moment_bounds.diameter, moment_bounds.variances
MUTANTS: list[tuple[Any, str, Any]] = [
    (moment_bounds, "diameter", lambda columns: DIAMETER(columns) / 2),
    (moment_bounds, "variances", lambda columns, *where: VARIANCE(columns, *where) / 3),
    (Meter, "answer", used_before_noise("means")),
    (frames, "framed", unshortened),
    (frames, "framed", shortened_together),
]


def found_complaints(rows: tuple[Vector, Vector]) -> list[str]:
    """Return the complaints of a comparison of neighbors in a run of dp_gd."""
    X, y = rows[0].copy(), rows[1].copy()
    X[7], y[7] = (-1.0, 1.0, 0.0, 0.0, -1.0, 1.0), 1.0
    quote = plan(DpGd(steps=4), PROBLEM, Privacy(5.0, 1e-6))
    return complaints(quote, X, y, (np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0]), -1.0))


def test_neighbors_differ_by_no_more_than_their_bounds(rows: tuple[Vector, Vector]) -> None:
    assert found_complaints(rows) == []


@pytest.mark.parametrize(("owner", "name", "mutant"), MUTANTS, ids=["means", "variances", "exact", "long", "together"])
def test_mutants_are_caught(
    owner: Any, name: str, mutant: Any, rows: tuple[Vector, Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, mutant)
        assert found_complaints(rows) != []


def test_the_terms_of_a_record_are_within_the_planned_bound() -> None:
    """One category is very rare, and the means lie at its corner."""
    wide = Columns((2,) * 40 + (1,))
    problem = Problem(Logistic(), n=10**7, d=wide.d, row_norm=wide.row_norm, columns=wide)

    class FixedAnswers:
        share = 1.0

        def planned(self, query: str) -> PlannedQuery:
            return PlannedQuery(query, 1, Gaussian(), 1e-3)

        def means(self, _: str) -> Vector:
            return np.append(np.tile([1.0, 0.0], 40), 1.0)

        def spread(self, _: str, center: Vector) -> float:
            return 0.0 * float(center.sum())

        def variances(self, _: str, center: Vector, radius: float) -> Vector:
            return 0.0 * radius * center[-1:]

    frame = Private().frame(FixedAnswers(), problem)  # type: ignore[arg-type]
    assert frame.longest(wide) <= STRETCH * ROW_NORM
    assert frame.longest(wide) > 0.9 * STRETCH


@pytest.mark.parametrize("high", [0.0, 1e-155, 1e-120, 1e-90, 1e-13])
def test_numbers_that_are_declared_to_be_next_to_nothing_are_not_standardised(high: float) -> None:
    """Such a quote was once given, and its run ended, charged, with a radius that no oracle accepts."""
    columns, privacy = Columns((1,), ((0.0, high),)), Privacy(1.0, 1e-6)
    problem = Problem(Logistic(), n=50, d=2, row_norm=columns.row_norm, columns=columns)
    with pytest.raises(Unsuitable, match="smaller scale"):
        plan(DpGd(steps=3), problem, privacy, preparation=Private())
    with pytest.raises(Unsuitable, match="smaller scale"):
        plan(Profile(), problem, privacy)
    assert plan(Auto(), problem, privacy).preparation.name == "declared"
    assert plan(DpGd(steps=3), problem, privacy).preparation.name == "declared"
    X = np.column_stack((np.full(50, high), np.ones(50)))
    assert np.isfinite(solve(DpGd(steps=3), problem, X, np.ones(50), privacy).coefficients).all()
