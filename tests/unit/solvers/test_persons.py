"""Rows of persons: which rows count, their slots, and the models of persons."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from accounting import Privacy, Unit
from accounting.errors import OutOfPlan, OutOfRange
from accounting.mechanisms import RowObjectivePerturbation
from accounting.noise import Noise
from solvers import Problem, methods, plan, solve
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.count_sums import Cells, Histograms, Products
from solvers.data_access.data import slots_of
from solvers.data_access.frames import framed
from solvers.data_access.moment_sums import Limited, MeanRow, ResidualSum, SpreadSum, Squares, Targets
from solvers.data_access.persons import of_persons, rows_by_slot
from solvers.data_access.sums import gradient_sum
from solvers.data_access.unfolded import rows_of
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Logistic, Loss, Squared
from solvers.methods import ObjectivePerturbation
from solvers.methods.data.objective_perturbation import ObjectivePerturbationRun
from solvers.preparation import Declared
from solvers.regularizers import L2
from tests.support.seeded import SeededBits
from tests.support.standardised import LIMITED_LOSSES

WIDE = Privacy(100.0, 1e-2)


def test_each_person_has_its_first_rows_in_slots_of_its_own() -> None:
    owners, k = np.array([2, 0, 2, 2, 1, 2, 0]), 3
    slots = rows_by_slot(owners, 5, k, Noise(SeededBits(1))).reshape(5, k)
    assert sorted(map(tuple, slots.tolist())) == [(-1, -1, -1), (-1, -1, -1), (0, 2, 3), (1, 6, -1), (4, -1, -1)]


@pytest.mark.slow
def test_all_orders_of_persons_are_equally_likely_for_every_order_of_the_file() -> None:
    """Draw 6,000 orders for each of two numberings. Each of six orders occurs 1,000 times, and 6 stds are 173."""
    noise = Noise(SeededBits(2))
    for owners in (np.array([0, 1, 2]), np.array([2, 2, 1, 0])):
        last = len(owners) - 1
        counts = Counter(tuple(rows_by_slot(owners, 3, 1, noise).tolist()) for _ in range(6000))
        assert len(counts) == 6
        assert all(abs(count - 1000) < 173 for count in counts.values())
        assert all(last in order for order in counts)


def test_records_are_drawn_with_all_their_slots() -> None:
    problem = Problem(Logistic(), n=5, d=1, row_norm=1.0, unit=Unit("person", 3))
    assert slots_of(np.array([4, 1]), problem).tolist() == [12, 13, 14, 3, 4, 5]


def test_moments_add_up_the_rows_of_all_slots_and_no_empty_one() -> None:
    """Sums equal those of the rows alone, without persons, whatever the empty slots hold."""
    columns, rng, here = Columns((1, 3, 1)), np.random.default_rng(4), np.random.default_rng(5).random(120) < 0.5
    X = np.column_stack((rng.uniform(-1, 1, 120), np.eye(3)[rng.integers(0, 3, 120)], rng.uniform(-1, 1, 120)))
    X, y = np.column_stack((X, np.ones(120))), rng.uniform(-1, 1, 120)
    row_problem = Problem(Squared(), n=int(here.sum()), d=columns.d, row_norm=columns.row_norm, columns=columns)
    rows = inputs.of_arrays(X[here], y[here], row_problem)
    persons = inputs.of_arrays(X, y, replace(row_problem, n=40, unit=Unit("person", 3)), here)
    center = np.full(5, 0.3)
    moments = MeanRow(), SpreadSum(center, 1.0), Squares(center, 0.2), Targets(), Targets(0.4)
    frame = Frame(center, np.full(5, 0.7), 0.5)
    w, W = rng.normal(size=columns.d), rng.normal(size=(1, columns.d))
    limited = Limited(frame, W, 0.3), ResidualSum(frame, w, 1.5)
    for work in (*moments, *limited, Histograms(4), Cells(4), Products(center)):
        assert np.allclose(persons.total(work), rows.total(work), rtol=1e-12)


def test_framed_gradients_of_persons_count_no_empty_slot() -> None:
    """An empty slot holds zeros, whose row in a frame is not zero, so its scale must be."""
    columns, rng = Columns((1, 3)), np.random.default_rng(7)
    X = np.column_stack((rng.uniform(-1, 1, 60), np.eye(3)[rng.integers(0, 3, 60)], np.ones(60)))
    y, present = rng.choice([-1.0, 1.0], 60), np.arange(60) % 3 > 0
    row_problem = Problem(Logistic(), n=40, d=columns.d, row_norm=columns.row_norm, columns=columns)
    rows = inputs.of_arrays(X[present], y[present], row_problem)
    persons = inputs.of_arrays(X, y, replace(row_problem, n=20, unit=Unit("person", 3)), present)
    frame, w = Frame(np.full(4, 0.3), np.full(4, 0.7), 0.5), rng.normal(size=columns.d)
    with_empty = gradient_sum(framed(persons, frame, 1.0), slice(0, 60), w)
    assert np.allclose(with_empty, gradient_sum(framed(rows, frame, 1.0), slice(0, 40), w), rtol=1e-12)


@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
def test_limited_gradients_count_no_empty_slot(loss: Loss) -> None:
    """An empty slot holds zeros, whose gradient in a frame is not zero, so the slot's limit must be zero."""
    columns, rng = Columns((1, 3)), np.random.default_rng(6)
    X = np.column_stack((rng.uniform(-1, 1, 60), np.eye(3)[rng.integers(0, 3, 60)], np.ones(60)))
    y = rng.integers(0, 2, 60).astype(float) if loss.outputs > 1 else rng.choice([-1.0, 1.0], 60)
    here = np.arange(60) % 3 > 0
    row_problem = Problem(loss, n=40, d=columns.d, row_norm=columns.row_norm, columns=columns)
    rows = inputs.of_arrays(X[here], y[here], row_problem)
    persons = inputs.of_arrays(X, y, replace(row_problem, n=20, unit=Unit("person", 3)), here)
    work = Limited(Frame(np.full(4, 0.3), np.full(4, 0.7), 0.5), rng.normal(size=(loss.outputs, columns.d)), 0.3)
    assert np.allclose(persons.total(work), rows.total(work), rtol=1e-12)


@pytest.mark.parametrize(
    "unit", [("row", 3), ("person", None), ("person", 0), ("person", 4097), ("person", True), ("x", 1)]
)
def test_a_unit_is_a_row_or_a_person_with_a_cap(unit: tuple[str, int | None]) -> None:
    with pytest.raises(OutOfRange):
        Unit(*unit)  # type: ignore[arg-type]
    assert (str(Unit()), str(Unit("person", 1))) == ("one row", "one person, up to 1 row")


def test_the_loss_is_the_mean_over_persons_of_their_rows_over_the_cap() -> None:
    """With epsilon 100 and 4,000 persons the model is the minimizer of the sum over n k, where missing rows are 0."""
    rng = np.random.default_rng(3)
    n, k, l2 = 4000, 2, 0.5
    ids = np.concatenate((np.arange(n - 500), rng.integers(0, n - 500, 3000)))
    X = rng.uniform(-1, 1, (len(ids), 2))
    y = np.clip(X @ [0.5, -0.3] + 0.1, -1, 1)
    problem = Problem(Squared(), L2(l2), n=n, d=2, row_norm=math.sqrt(2), unit=Unit("person", k))
    turn = Counter[int]()
    is_counted = np.zeros(len(ids), np.bool_)
    for i, person in enumerate(ids.tolist()):
        is_counted[i] = turn[person] < k
        turn[person] += 1
    minimizer = np.linalg.solve(
        X[is_counted].T @ X[is_counted] / (n * k) + l2 * np.eye(2), X[is_counted].T @ y[is_counted] / (n * k)
    )
    for method in (methods.OutputPerturbation(ridge=0.0), methods.ObjectivePerturbation(ridge=0.0)):
        release = solve(method, problem, X, y, WIDE, Declared(), persons=ids)
        assert np.linalg.norm(release.coefficients - minimizer) < 0.01


def test_rows_of_a_table_are_grouped_too() -> None:
    columns = Columns((1, 3))
    problem = Problem(Squared(), n=3, d=5, row_norm=columns.row_norm, columns=columns, unit=Unit("person", 2))
    X = np.array([[0.5, 1, 0, 0, 1], [-0.5, 0, 1, 0, 1], [1, 0, 0, 1, 1], [0, 1, 0, 0, 1]])
    data = of_persons(X, np.arange(4.0), ["a", "b", "a", "a"], problem, Noise(SeededBits(4)))
    by_person = rows_of(data).reshape(3, 10)
    assert sorted(by_person.tolist()) == sorted([[*X[0], *X[2]], [*X[1], *[0.0] * 5], [0.0] * 10])
    assert data.present().sum() == 3


@pytest.mark.parametrize(
    "ids",
    [
        [-1, -1, 2**63, -1],
        [1, 1, 10**5000, 1],
        [1, 1, "1", 1],
        np.array(["a", "a", "b", "a"], dtype=object),
        pl.Series(["a", "a", "b", "a"]),
        pa.array([2**53, 2**53, 2**53 + 1, 2**53]),
    ],
    ids=["signed and unsigned", "huge", "number and text", "objects", "polars", "arrow"],
)
def test_one_name_of_a_person_makes_no_others_the_same(ids: Any) -> None:
    """NumPy makes one type of a list: doubles, objects or text."""
    problem = Problem(Squared(), n=3, d=1, row_norm=1.0, unit=Unit("person", 2))
    data = of_persons(np.array([[0.1], [0.2], [0.3], [0.4]]), np.zeros(4), ids, problem, Noise(SeededBits(4)))
    assert sorted(rows_of(data).reshape(3, 2).tolist()) == [[0, 0], [0.1, 0.2], [0.3, 0]]


def test_sparse_rows_are_grouped_too() -> None:
    X = np.array([[0.5, 0.0, 0.2], [0.0, -0.5, 0.0], [0.0, 0.0, 0.0], [0.1, 0.0, 0.9]])
    problem = Problem(Squared(), n=4, d=3, row_norm=1.0, unit=Unit("person", 2))
    datasets = [
        of_persons(form, np.arange(4.0), [7, 7, 8, 7], problem, Noise(SeededBits(4)))
        for form in (X, sparse.csr_array(X))
    ]
    assert np.array_equal(rows_of(datasets[0]), rows_of(datasets[1]))
    assert [data.present().sum() for data in datasets] == [3, 3]


def test_a_file_without_rows_is_a_neighbor_of_the_rows_of_one_person() -> None:
    """A file without rows once raised an error, which revealed whether the only person has rows."""
    columns = Columns((1, 3))
    declared = Problem(Squared(), n=3, d=5, row_norm=columns.row_norm, columns=columns, unit=Unit("person", 2))
    plain = Problem(Squared(), n=3, d=2, row_norm=1.0, unit=Unit("person", 2))
    table = {"a": np.array([0.5]), "b": np.array([1])}
    forms = (
        (plain, np.ones((1, 2))),
        (plain, sparse.csr_array(np.ones((1, 2)))),
        (declared, np.array([[0.5, 0, 1, 0, 1]])),
        (declared, sparse.csr_array([[0.5, 0, 1, 0, 1]])),
        (declared, table),
        (declared, pl.DataFrame(table)),
        (declared, pa.table(table)),
    )
    for problem, X in forms:
        none = {name: X[name][:0] for name in X} if isinstance(X, dict) else X[:0]
        for ids in (np.array([]), np.array([], dtype=np.int64), np.array([], dtype="U1")):
            data = of_persons(none, np.empty(0), ids, problem, Noise(SeededBits(4)))
            single = of_persons(X, np.ones(1), [7], problem, Noise(SeededBits(4)))
            assert (data.present().sum(), single.present().sum()) == (0, 1)
            assert not rows_of(data).any()
            assert [(np.shape(a), type(a)) for a in data.records[:9]] == [
                (np.shape(a), type(a)) for a in single.records[:9]
            ]
            assert data.is_sparse == single.is_sparse
        release = solve(methods.DpGd(steps=2), problem, none, np.empty(0), Privacy(1.0, 1e-6), Declared(), persons=[])
        assert release.coefficients.shape == (problem.d,)
    for wrong in (np.ones((1, 2)), np.ones((0, 3)), sparse.csr_array((1, 2)), {"a": np.ones(1), "b": np.ones(1)}):
        with pytest.raises(Unsuitable, match="each entry"):
            of_persons(wrong, np.empty(0), [], plain, Noise(SeededBits(4)))
    with pytest.raises(Unsuitable, match="each entry"):
        of_persons(np.ones((0, 2)), np.ones(1), [], plain, Noise(SeededBits(4)))


def test_names_of_persons_must_fit_the_problem() -> None:
    person = Problem(Squared(), n=2, d=1, row_norm=1.0, unit=Unit("person", 2))
    row = Problem(Squared(), n=3, d=1, row_norm=1.0)
    X, y = np.ones((3, 1)), np.ones(3)
    for problem, ids, message in (
        (person, None, "persons must be passed"),
        (row, [1, 1, 2], "persons must be passed"),
        (person, [1, 2, 3], "more names"),
        (person, [1.5, 2.5, 2.5], "whole number or a text"),
        (person, [1, 2], "shape"),
    ):
        with pytest.raises(Unsuitable, match=message):
            solve(methods.DpGd(), problem, X, y, Privacy(1.0, 1e-6), persons=ids)
    with pytest.raises(Unsuitable, match="n times max_rows"):
        Problem(Squared(), n=10**8, d=1, row_norm=1.0, unit=Unit("person", 200))


def test_a_perturbed_objective_of_one_row_is_not_run_on_persons_of_several() -> None:
    """Whatever plan comes in, the method knows what a record is, and nothing is released."""
    problem = Problem(Logistic(), L2(0.1), n=4, d=2, row_norm=1.0, unit=Unit("person", 2))
    quoted = plan(ObjectivePerturbation(ridge=0.0), problem, WIDE, preparation=Declared())
    first, second = quoted.release.plan.queries
    wrong = replace(quoted.release.plan, queries=(replace(first, mechanism=RowObjectivePerturbation(0.01)), second))
    data = of_persons(np.zeros((4, 2)), np.ones(4), [0, 1, 2, 3], problem, Noise(SeededBits(4)))
    assert isinstance(quoted.method, ObjectivePerturbationRun)
    access = DataAccess(problem, data, wrong, Noise(SeededBits(5)))
    with pytest.raises(OutOfPlan, match="one row"):
        quoted.method.run(access, problem)
    assert not access.transcript().queries
    good = DataAccess(problem, data, quoted.release.plan, Noise(SeededBits(5)))
    assert quoted.method.run(good, problem).shape == (2,)


def test_a_perturbed_objective_pays_for_the_rank_of_a_person() -> None:
    """ln(1 + ratio) is k ln(1 + L / (k n m)), between the values of one record and of k records of rank one."""
    ratios = []
    for k in (1, 8, 4096):
        problem = Problem(Logistic(), L2(1e-3), n=1000, d=2, row_norm=1.0, unit=Unit("person", k))
        own = plan(ObjectivePerturbation(ridge=0.0), problem, Privacy(1.0, 1e-6), preparation=Declared())
        [mechanism] = [query.mechanism for query in own.release.plan.queries if query.name == "minimizer"]
        ratios.append(mechanism.curvature_ratio)  # type: ignore[union-attr]
        assert mechanism.name == ("row_objective_perturbation" if k == 1 else "objective_perturbation")
        assert (mechanism.curves(3.0).epsilon is None) == (k > 1)  # the profile's proof is for one row
    row_ratio = 0.25 / (1000 * 1e-3)
    assert ratios[0] == pytest.approx(row_ratio)
    assert ratios[1] == pytest.approx((1 + row_ratio / 8) ** 8 - 1)
    assert ratios[2] == pytest.approx(math.expm1(row_ratio), rel=1e-4)


def test_a_rank_that_costs_too_much_is_refused() -> None:
    problem = Problem(Logistic(), L2(1e-5), n=10, d=2, row_norm=1.0, unit=Unit("person", 4096))
    with pytest.raises(Unsuitable, match="ridge"):
        plan(ObjectivePerturbation(ridge=0.0), problem, Privacy(1.0, 1e-6), preparation=Declared())


def test_work_and_forecasts_follow_the_slots() -> None:
    row = Problem(Logistic(), n=500, d=2, row_norm=1.0)
    person = Problem(Logistic(), n=500, d=2, row_norm=1.0, unit=Unit("person", 4))
    for method in (methods.DpGd(steps=7), methods.NoisySgd(steps=9, batch=50), methods.PhasedSgd()):
        row_quote, person_quote = (plan(method, p, Privacy(1.0, 1e-6), preparation=Declared()) for p in (row, person))
        assert person_quote.gradient_evaluations == 4 * row_quote.gradient_evaluations
        # n is the number of persons, so both differ by rounding alone.
        assert person_quote.noise_stds == pytest.approx(row_quote.noise_stds, rel=1e-9)
