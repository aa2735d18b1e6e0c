"""Contracts of every method where a record is a person: no value moves by more than its bound if all rows of one do."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from accounting import Privacy, Unit
from accounting.noise import Noise
from accounting.privacy import Relation
from solvers import plan
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.errors import Unsuitable
from solvers.methods import DpGd, DpSvrg, Method, NoisyMirrorDescent
from solvers.preparation import Declared
from solvers.solve import run
from solvers.statistics import AnyStatistic, Counts, Profile
from tests.support.coupled import complaints_of_each
from tests.support.members import DEFAULT_METHODS, PROMISES
from tests.support.persons import FIRST, FULL, MINE, NONE, PROBLEMS, K, N, far, rows
from tests.support.seeded import SeededBits

STATISTICS: list[Any] = [
    Profile(bins=4) if kind is Profile else Counts(bins=4) if kind is Counts else kind()
    for kind in get_args(AnyStatistic)
]
FEW = NoisyMirrorDescent(passes=2, batch=8)  # slots: by default there are 900 answers, all of them alike
METHODS = [
    *(FEW if isinstance(method, NoisyMirrorDescent) else method for method in DEFAULT_METHODS),
    *STATISTICS,
    DpSvrg(form="printed", epochs=1, inner_steps=4, batch=40),
    DpSvrg(batch=40, form="centred"),
]
NAMES = [f"{method.name}-{getattr(method, 'form', '')}".strip("-") for method in METHODS]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_replacing_all_rows_of_a_person_moves_no_value_by_more_than_its_bound_says(
    method: Method | AnyStatistic, relation: Relation
) -> None:
    """Under zero_out, where the other person has no row: by half of that."""
    tried = 0
    for problem in (replace(problem, relation=relation) for problem in PROBLEMS):
        for privacy in PROMISES:
            try:
                quote = plan(method, problem, privacy)
            except Unsuitable:
                continue
            X, y = rows(problem, 8)
            held = np.random.default_rng(9).random(problem.slots) < 0.6
            X[MINE], y[MINE], held[MINE] = far(problem, True), 1.0, FULL
            others = ((False, 1.0, FULL), (True, -1.0, FULL), (False, 0.0, FIRST), (True, 1.0, NONE))
            turned = []
            for upwards, target, after in others if relation == "replace_one" else others[-1:]:
                other = held.copy()
                other[MINE] = after
                replaced = np.tile(far(problem, upwards), (K, 1)), max(target, 0.0) if problem.outputs > 1 else target
                turned.append((replaced, other))
            assert complaints_of_each(quote, X, y, turned, held) == []
            tried += 1
    assert tried or method.name == "inverse_sensitivity"


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_persons_of_one_row_each_are_rows(method: Method | AnyStatistic) -> None:
    """To the last bit, but where the means of persons hold the share of places with a row."""
    for problem in (PROBLEMS[0], PROBLEMS[3], PROBLEMS[-3]):
        person, row = replace(problem, unit=Unit("person", 1)), replace(problem, unit=Unit())
        X, y = rows(row, 3)
        found = []
        for own, here in ((person, np.ones(N, np.bool_)), (row, None)):
            try:
                asked: Any = (
                    {} if isinstance(method, AnyStatistic) or method.standardises else {"preparation": Declared()}
                )
                quote = plan(method, own, PROMISES[0], **asked)
            except Unsuitable:
                continue
            assert quote.gradient_evaluations == plan(method, row, PROMISES[0], **asked).gradient_evaluations
            data = inputs.of_arrays(X, y, quote.problem, here)
            found.append(run(quote.method, quote.problem, data, quote.release, Noise(SeededBits(3))))
        if found and not isinstance(method, AnyStatistic) and not method.standardises:
            assert np.array_equal(found[0][0], found[1][0])


@pytest.mark.slow
def test_a_place_without_a_row_adds_nothing_whatever_stands_there() -> None:
    for problem in PROBLEMS:
        for method in (DpGd(), *STATISTICS, DEFAULT_METHODS[1]):
            try:
                quote = plan(method, problem, Privacy(1.0, 1e-6))
            except Unsuitable:
                continue
            X, y = rows(problem, 1)
            held = np.random.default_rng(2).random(problem.slots) < 0.5
            found = []
            for seed in (3, 4):
                other, labels = rows(problem, seed)
                mine, targets = np.where(held[:, None], X, other), np.where(held, y, labels)
                data: Data = inputs.of_arrays(mine, targets, quote.problem, held)
                found.append(
                    run(
                        quote.method, quote.problem, data, quote.release, Noise(SeededBits(3)), None, quote.preparation
                    )[0]
                )
            assert np.isfinite(found[0]).all()
            assert np.array_equal(found[0], found[1])
