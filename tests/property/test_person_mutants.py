"""Mutants for persons are detected: a forgotten weight, sampled rows, positions by the file."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy, Unit
from accounting.mechanisms import Gaussian, Mechanism, PoissonGaussian, RandomAllocation, SvrgStep
from accounting.noise import Noise, draws
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, bounds, methods, plan
from solvers.data_access import access, allocated, data, inputs, persons, sampled, sums, walk
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.data import slots_of
from solvers.data_access.sampled import SampledOracle
from solvers.losses import Squared
from solvers.preparation import Declared
from solvers.problem import Vector
from tests.support.coupled import complaints_of_each
from tests.support.noiseless import noiseless
from tests.support.persons import FULL, MINE, NONE, PROBLEMS, K, row_at_bound, rows
from tests.support.seeded import SeededBits

N = 40
OWN = Problem(Squared(), n=N, d=N, row_norm=1.0, unit=Unit("person", K))
Slots = Callable[[NDArray[np.int64], Problem], NDArray[np.int64]]


def violations(method: methods.Method) -> list[str]:
    """Return the violations of the contract by a person who loses all rows."""
    quote = plan(method, PROBLEMS[2], Privacy(1.0, 1e-6), preparation=Declared())
    X, y = rows(PROBLEMS[2], 8)
    has_row = np.ones(len(X), np.bool_)
    X[MINE], y[MINE] = row_at_bound(PROBLEMS[2], True), 1.0
    has_row_after = has_row.copy()
    has_row_after[MINE] = NONE
    has_row[MINE] = FULL
    turned = np.tile(row_at_bound(PROBLEMS[2], False), (K, 1)), 1.0
    return complaints_of_each(quote, X, y, [(turned, has_row), (turned, has_row_after)], has_row)


@pytest.mark.parametrize(
    "method", [methods.NoisySgd(steps=4, batch=300), methods.DpSvrg(epochs=1, inner_steps=4, batch=300)], ids=str
)
def test_a_batch_s_bound_for_one_row_of_a_person_is_caught(
    method: methods.Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant's bound lacks the factor 1/k: its noise covers one row of a person."""
    assert violations(method) == []
    monkeypatch.setattr(bounds, "long_rows", lambda _: 1 / K)
    assert violations(method)


def test_a_mean_over_persons_without_the_weight_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sums.gradient_sum
    for module in (sampled, access, sums):
        monkeypatch.setattr(module, "gradient_sum", lambda *arguments: K * whole(*arguments))
    assert violations(methods.DpGd(steps=2))
    assert violations(methods.OutputPerturbation(steps=3, ridge=0.5))


def test_a_step_of_a_pass_without_the_weight_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    method, one_pass = methods.PhasedSgd(phases=4, ratio=2.0, step=1e-3), access.DataAccess.one_pass
    assert violations(method) == []
    monkeypatch.setattr(access.DataAccess, "one_pass", lambda data, r, start, step: one_pass(data, r, start, K * step))
    assert violations(method)


def held_by_person() -> list[Vector]:
    """Return the number of rows of each person in each answer. Each person has copies of one row of their own."""
    X = np.repeat(np.eye(N), K, axis=0)
    all_of = inputs.of_arrays(X, np.ones(N * K), OWN, np.ones(N * K, np.bool_))
    queries: dict[str, Mechanism] = {
        "sampled": PoissonGaussian(0.5),
        "printed": SvrgStep(20, N),
        "slot": RandomAllocation(1.0, 4, "independent"),
        "whole": Gaussian(),
    }
    answer_plan = Plan(tuple(PlannedQuery(name, 8, mechanism, 1.0) for name, mechanism in queries.items()))
    sampled_oracle = SampledOracle(OWN, all_of, answer_plan, Noise(SeededBits(1)))
    w = np.zeros(N)
    slots = AllocatedOracle(OWN, all_of, answer_plan, Noise(SeededBits(2)))
    with noiseless() as answers:
        for _ in range(4):
            sampled_oracle.sampled_gradient("sampled", w)
            sampled_oracle.sampled_change("sampled", w + 0.1, w)
            sampled_oracle.printed_change("printed", w + 0.1, w)
            slots.allocated_gradient("slot", w)
    drawn = access.DataAccess(OWN, all_of, answer_plan, Noise(SeededBits(3))).redrawn()
    return [np.atleast_2d(answer.value)[0] for answer in answers] + [drawn.mean_gradient(range(N), w)]


def whole_persons(values: list[Vector], honest: list[Vector]) -> bool:
    """Return whether each answer contains a multiple of all rows of each person."""
    for value, right in zip(values, honest, strict=True):
        whole = np.abs(right[np.abs(right) > 1e-12]).min()
        times = np.abs(value) / whole
        if not np.allclose(times, np.rint(times), rtol=0, atol=1e-6):
            return False
    return True


def by_rows(right: Slots) -> Slots:
    """The mutant: each of a batch's rows for itself, two of three."""
    chosen = np.random.default_rng(5)
    return lambda records, problem: (where := right(records, problem))[chosen.random(len(where)) < 2 / 3]


def test_batches_slots_and_draws_hold_whole_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = held_by_person()
    assert whole_persons(honest, honest)
    for module in (data, sampled, allocated, walk):
        monkeypatch.setattr(module, "slots_of", by_rows(slots_of))
    assert not whole_persons(held_by_person(), honest)


@pytest.mark.slow
def test_without_the_permutation_a_lost_row_moves_other_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Persons are numbered by first appearance, so a lost row changes the numbers of other persons.

    Only the permutation makes the distribution of positions independent of the numbering.
    """

    def first_places(owners: list[int]) -> Vector:
        noise = Noise(SeededBits(7))
        draw = (persons.rows_by_slot(np.array(owners), 4, 1, noise) for _ in range(3000))
        return np.mean([[order.tolist().index(owners.index(person)) for person in range(4)] for order in draw], axis=0)

    first_owners, second_owners = [0, 1, 2, 3], [3, 1, 0, 2]  # the same persons, numbered by first appearance
    assert np.abs(first_places(first_owners) - 1.5).max() < 0.15
    assert np.abs(first_places(second_owners) - 1.5).max() < 0.15
    monkeypatch.setattr(draws, "ordered_rows", lambda _noise, n, count: np.arange(n)[:count])
    assert np.abs(first_places(first_owners) - 1.5).max() > 1


def test_problems_of_other_units_do_not_share_data() -> None:
    rows_of_it = replace(OWN, n=N * K, unit=Unit())
    row_data = inputs.of_arrays(np.zeros((N * K, N)), np.zeros(N * K), rows_of_it)
    with pytest.raises(Exception, match="another problem"):
        SampledOracle(OWN, row_data, Plan(()), Noise(SeededBits(1)))
