"""Expected accuracy by epsilon: repeated runs of the real method on rows of a public twin. No data is touched.

The method is resolved and its noise calibrated for the dataset's own n. If all its answers are Gaussian means over all
rows, a run may use fewer rows, n', with multipliers n'/n times as large. The noise of each answer, multiplier times
bound over the number of records, is then that of the run on n, except for what rounding adds to bounds. Only the error
from having n' instead of n rows remains. Any other method runs on n rows or is refused.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian
from app.calculation.planted import Planted
from app.sources import twins
from app.sources.design import Design
from app.sources.twins import Floats, Twin
from purse.prediction import number_target
from solvers.data_access.data import Data
from solvers.data_access.frames import framed
from solvers.data_access.sums import gradient_sum
from solvers.losses.smoothing import smoothed
from solvers.methods.run import FullBatchRun, StandardisedRun
from solvers.oracles import Standardised
from solvers.preparation import ByProfile, Declared
from solvers.preparation.moments import Moments
from solvers.preparation.private import ROW_NORM
from solvers.problem import Problem, Vector
from solvers.solve import PlannedRun, data_of, release

TEST_ROWS = 10_000
_USUAL_WORK, _MOST_WORK = 3e9, 8e9  # values read by all gradients: about 10 s, about 30 s
_RECORD, _ANSWER, _DRAW = 8, 5e4, 100  # further values that a record, an answer, and a coordinate's noise cost
_MOST_VALUES = 2e7  # of a twin
_FEWEST_RECORDS = 1000  # of a run, unless n is smaller
_STEPS, _SMOOTHING = 300, 0.01
_USUAL_RUNS, _FEWEST_RUNS = (10, 5), 3
_ADVICE = "request fewer epsilons or runs"


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of the runs at one epsilon: accuracies, or r2; for numbers also the rmse in the target's unit."""

    epsilon: float
    method: str
    scores: tuple[float, ...]
    rmse: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecasted:
    """The numbers of a forecast."""

    at: tuple[Scored, ...]
    records: int
    constant: float
    optimum: float
    kind: Literal["forecasted"] = "forecasted"


@dataclass(frozen=True, slots=True)
class TrialRows:
    """The training rows and test rows of a run.

    Parameters
    ----------
    rows : coded values, by feature
    y : targets in the form that the method takes
    persons : person of each row, if the unit is a person
    test, test_y : the same for the test rows
    """

    rows: dict[str, Floats]
    y: Floats
    persons: NDArray[np.int64] | None
    test: dict[str, Floats]
    test_y: Floats


def forecast(
    design: Design, planned: dict[float, PlannedRun], twin: Twin, seed: int, signal: float, requested_runs: int | None
) -> Forecasted:
    """Return the scores of the runs at each epsilon.

    Parameters
    ----------
    requested_runs : number of runs at each epsilon; None for as many of the usual ones as the work limit allows
    planned : planned run, by epsilon
    twin : distribution of the training and test rows

    Raises
    ------
    OutOfRange
        if the runs would take too long, or the target is constant.
    """
    problem = next(iter(planned.values())).problem
    runs, records = fitting(list(planned.values()), requested_runs)
    trial = _drawn(design, problem, records, twin, seed, signal)
    if not design.classes and not np.ptp(trial.test_y):  # r2 would be a quotient by zero
        raise OutOfRange("the target has one value in all test rows, so r2 is undefined. Choose another target")
    points, score = [], scorer(design, trial)
    for epsilon, run in planned.items():
        small = scaled(run, records)
        results = [score(release(small, trial.rows, trial.y, trial.persons).coefficients) for _ in range(runs)]
        scores, rmse = (tuple(part) for part in zip(*results, strict=True))
        points.append(Scored(epsilon, run.method.name, scores, () if design.classes else rmse))
    last = next(reversed(planned.values()))
    optimum = best(replace(last.problem, n=records), isinstance(last.preparation, Declared), trial)
    return Forecasted(tuple(points), records, _constant(design, trial.test_y), score(optimum)[0])


def fitting(planned: list[PlannedRun], requested_runs: int | None) -> tuple[int, int]:
    """Return the number of runs at each epsilon, and of the records of a run."""
    if requested_runs is not None:
        return requested_runs, _affordable(planned, requested_runs)
    for runs in _USUAL_RUNS:
        with suppress(OutOfRange):
            return runs, _affordable(planned, runs)
    return _FEWEST_RUNS, _affordable(planned, _FEWEST_RUNS)


def _affordable(planned: list[PlannedRun], runs: int) -> int:
    """Return the number of records of a run: n, or fewer if the noise can be scaled."""
    problem = planned[0].problem
    n, k, columns = problem.n, problem.unit.slots, problem.columns
    assert columns is not None
    evaluations = runs * sum(run.gradient_evaluations / n for run in planned) + _STEPS * k
    answers = runs * sum(query.answers for run in planned for query in run.release.plan.queries)
    each = evaluations * problem.outputs * (_RECORD + len(columns.widths))

    def within(work: float) -> int:
        room = max(0.0, work - answers * (_ANSWER + _DRAW * problem.size))
        return int(min(n, room / each, _MOST_VALUES / (k * (1 + len(columns.widths)))))

    if all(_is_scalable(run) for run in planned):
        records = max(within(_USUAL_WORK), min(_FEWEST_RECORDS, within(_MOST_WORK)))
        if records < min(n, _FEWEST_RECORDS):
            raise OutOfRange(f"these runs exceed the work limit of a forecast: {_ADVICE}, or fewer features")
        return records
    if within(_MOST_WORK) < n:
        names = ", ".join(sorted({run.method.name for run in planned}))
        raise OutOfRange(
            f"{names} on {n} records exceeds the work limit of a forecast, and its noise cannot be scaled to fewer "
            f"records: {_ADVICE}, or a method of full gradients, such as adaptive_gd or dp_gd"
        )
    return n


def _is_scalable(run: PlannedRun) -> bool:
    gaussian = all(isinstance(query.mechanism, Gaussian) for query in run.release.plan.queries)
    return gaussian and isinstance(run.method, FullBatchRun | StandardisedRun)


def scaled(run: PlannedRun, records: int) -> PlannedRun:
    """Return the same run on fewer records, with the noise that its answers have on all."""
    n, plan = run.problem.n, run.release.plan
    if records == n:
        return run
    queries = tuple(replace(q, noise_multiplier=q.noise_multiplier * records / n) for q in plan.queries)
    scaled = replace(run.release, plan=replace(plan, queries=queries))
    return replace(run, problem=replace(run.problem, n=records), release=scaled)


def _drawn(design: Design, problem: Problem, records: int, twin: Twin, seed: int, signal: float) -> TrialRows:
    persons = twins.owners(seed, records, problem.unit.slots) if problem.unit.is_person else None
    rows = range(records if persons is None else len(persons))
    fresh, (train, test) = range(rows.stop, rows.stop + TEST_ROWS), twin.parted
    planted = Planted.of(twin, design, seed, signal) if twin.sample is None else None
    parts: list[tuple[dict[str, Floats], Floats]] = []
    for source, some in ((train, rows), (test, fresh)):
        codes = source.codes(seed, some)
        own = codes[:, design.target_position]
        labels = own if design.classes is None else design.labels(own)
        y = labels if planted is None else planted.targets(codes, some)
        features = {f.name: column for f, column in zip(design.features, design.encoded(codes), strict=True)}
        parts.append((features, y))
    return TrialRows(*parts[0], persons, *parts[1])


def scorer(design: Design, trial: TrialRows) -> Callable[[Vector], tuple[float, float]]:
    """Return the function from a model to (accuracy, 0) on the test rows, or to (r2, rmse)."""
    y, starts = trial.test_y, design.columns.starts.tolist()
    half = 1.0 if design.classes else abs(number_target(design.target).middle_and_half[1])

    def score(w: Vector) -> tuple[float, float]:
        weights = w.reshape(design.outputs, design.d)
        margins = np.repeat(weights[:, -1:], len(y), axis=1)
        for (column, start), width in zip(zip(trial.test.values(), starts, strict=True), design.widths, strict=True):
            margins += weights[:, start + column.astype(int)] if width > 1 else weights[:, start, None] * column
        if design.outputs > 1:
            return float((np.argmax(margins, axis=0) == y).mean()), 0.0
        if design.classes:
            return float(((margins[0] > 0) == (y > 0)).mean()), 0.0
        mse = float(((margins[0] - y) ** 2).mean())
        return 1 - mse / max(float(y.var()), 1e-300), half * mse**0.5

    return score


def _constant(design: Design, y: Floats) -> float:
    """Return the score of the best constant answer."""
    return float(np.unique(y, return_counts=True)[1].max() / len(y)) if design.classes else 0.0


def best(problem: Problem, is_declared: bool, trial: TrialRows) -> Vector:
    """Return the approximate minimizer of mean loss + r over the domain, without noise and without a slope limit.

    The optimization uses accelerated steps in the twin's own standardised columns, or in the declared ones if the runs
    use these. A loss that is not smooth is replaced by its smooth form.
    """
    problem = replace(problem, loss=smoothed(problem.loss, _SMOOTHING), slope_limit=1.0)
    data, frame = data_of(problem, trial.rows, trial.y, trial.persons), None
    if not is_declared and problem.d > 1:
        no_oracle = cast(Standardised, None)  # known moments send no query
        frame = ByProfile(_moments(problem, trial.rows)).frame(no_oracle, problem)
        assert frame is not None
        data = framed(data, frame, ROW_NORM)
    w = _descended(data)
    return w if frame is None else frame.raw(w.reshape(-1, problem.d)).ravel()


def _descended(data: Data) -> Vector:
    met = data.problem
    w = v = met.start
    t = 1.0
    for _ in range(_STEPS):
        gradient = gradient_sum(data, slice(0, met.slots), v) / met.slots
        previous, w = w, met.prox(v - gradient / met.L, 1 / met.L)
        ahead = (1 + (1 + 4 * t * t) ** 0.5) / 2
        v, t = (w, 1.0) if gradient @ (w - previous) > 0 else (w + (t - 1) / ahead * (w - previous), ahead)
    return w


def _moments(problem: Problem, rows: dict[str, Floats]) -> Moments:
    """Return the moments of the twin's rows, without noise."""
    assert problem.columns is not None
    center, variances = [], []
    for column, width in zip(rows.values(), problem.columns.widths, strict=True):
        if width > 1:
            shares = np.bincount(column.astype(int), minlength=width) / len(column)
            center.append(shares)
            variances.append(shares * (1 - shares))
        else:
            center.append(column.mean(keepdims=True))
            variances.append(column.var(keepdims=True))
    m = np.concatenate(center)
    v = np.concatenate(variances)
    return Moments(tuple(m.tolist()), tuple(v.tolist()), (1 / len(next(iter(rows.values()))),) * len(m))
