"""Contracts of every method where a record is a person: no value moves by more than its bound if all rows of one do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy, Unit
from accounting.privacy import Relation
from solvers import plan
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.errors import Unsuitable
from solvers.methods import DpGd, Method
from solvers.preparation import Declared
from solvers.statistics import AnyStatistic
from tests.support.coupled import complaints_of_each
from tests.support.members import DEFAULT_METHODS, PROMISES, STATISTICS, every_method
from tests.support.persons import FIRST, FULL, MINE, NONE, PROBLEMS, K, N, row_at_bound, rows
from tests.support.runs import run_quote


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@every_method
def test_replacing_all_rows_of_a_person_moves_no_value_by_more_than_its_bound(
    method: Method | AnyStatistic, relation: Relation
) -> None:
    """Under zero_out the replacement has no rows, and values move by at most half of that."""
    tried = 0
    for problem in (replace(problem, relation=relation) for problem in PROBLEMS):
        for privacy in PROMISES:
            try:
                quote = plan(method, problem, privacy)
            except Unsuitable:
                continue
            X, y = rows(problem, 8)
            has_row = np.random.default_rng(9).random(problem.slots) < 0.6
            X[MINE], y[MINE], has_row[MINE] = row_at_bound(problem, True), 1.0, FULL
            replacements = ((False, 1.0, FULL), (True, -1.0, FULL), (False, 0.0, FIRST), (True, 1.0, NONE))
            turned = []
            for upwards, target, rows_after in replacements if relation == "replace_one" else replacements[-1:]:
                has_row_after = has_row.copy()
                has_row_after[MINE] = rows_after
                replaced = (
                    np.tile(row_at_bound(problem, upwards), (K, 1)),
                    max(target, 0.0) if problem.outputs > 1 else target,
                )
                turned.append((replaced, has_row_after))
            assert complaints_of_each(quote, X, y, turned, has_row) == []
            tried += 1
    assert tried or method.name == "inverse_sensitivity"


@pytest.mark.slow
@every_method
def test_persons_of_one_row_each_have_the_same_result_as_rows(method: Method | AnyStatistic) -> None:
    """Results are equal except for statistics, whose means of persons include the share of places with a row."""
    for problem in (PROBLEMS[0], PROBLEMS[3], PROBLEMS[-3]):
        person, row = replace(problem, unit=Unit("person", 1)), replace(problem, unit=Unit())
        X, y = rows(row, 3)
        results = []
        for own, here in ((person, np.ones(N, np.bool_)), (row, None)):
            try:
                settings: Any = (
                    {} if isinstance(method, AnyStatistic) or method.standardises else {"preparation": Declared()}
                )
                quote = plan(method, own, PROMISES[0], **settings)
            except Unsuitable:
                continue
            assert quote.gradient_evaluations == plan(method, row, PROMISES[0], **settings).gradient_evaluations
            data = inputs.of_arrays(X, y, quote.problem, here)
            results.append(run_quote(quote, data, 3))
        if results and not isinstance(method, AnyStatistic) and not method.standardises:
            assert np.array_equal(results[0][0], results[1][0])


@pytest.mark.slow
def test_the_values_in_a_place_without_a_row_have_no_effect() -> None:
    for problem in PROBLEMS:
        for method in (DpGd(), *STATISTICS, DEFAULT_METHODS[1]):
            try:
                quote = plan(method, problem, Privacy(1.0, 1e-6))
            except Unsuitable:
                continue
            X, y = rows(problem, 1)
            has_row = np.random.default_rng(2).random(problem.slots) < 0.5
            results = []
            for seed in (3, 4):
                other_rows, labels = rows(problem, seed)
                mine, targets = np.where(has_row[:, None], X, other_rows), np.where(has_row, y, labels)
                data: Data = inputs.of_arrays(mine, targets, quote.problem, has_row)
                results.append(run_quote(quote, data, 3)[0])
            assert np.isfinite(results[0]).all()
            assert np.array_equal(results[0], results[1])
