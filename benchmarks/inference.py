"""Coverage and width of the intervals of regression tables, on drawn models, finite populations and published rows.

Each repetition draws records and the privacy noise. Noise is seeded here, so a repeated run prints the same lines.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from accounting.noise import Noise
from accounting.privacy import REPLACE_ONE, Relation
from benchmarks import inference_designs as designs
from benchmarks.datasets import available
from benchmarks.inference_populations import Family, Matrix, Model, Population, Rows, Sample, Vector
from benchmarks.inference_rivals import sufficient_statistics
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.errors import Unsuitable
from solvers.inference import RegressionTable, RegressionTableRun
from solvers.inference.coordinates import Stds
from solvers.inference.table import SolvedTable, Units, table
from solvers.losses import Logistic, Squared
from solvers.solve import PlannedRun, run

DELTA = 1e-6
FAMILIES: tuple[Family, ...] = ("logistic", "linear", "poisson")
ZERO_OUT: Relation = "zero_out"
EPSILONS = (0.5, 1.0, 4.0)
_FEW_EPSILONS = (1.0, 4.0)
_Z = 1.959964
_RIVAL_RUNS = 50  # the first ones, in which rivals are measured
_LEAST_RUNS = 100  # in which a coefficient is given, for its own coverage to be printed
_CORRECT_GOAL, _FINITE_GOAL, _WIDTH_GOAL = (0.935, 0.97), (0.92, 1.0), 1.25
_WIDTH_RECORDS, _WIDTH_PARAMETERS, _WIDTH_EPSILON = 30_000, 10, 1.0
_WIDTHS = (57, 5, 6, 14, 7, 6, 7, 9, 6, 7, 12, 12)
_HEAD = ("cell", "runs", "given", "coverage", "lowest", "width", "median", "sampling", "noise", "whole")
_RIVALS = ("suff. stat.", "bootstrap")


@dataclass(frozen=True, eq=False)
class Setting:
    """A population with the number of records to draw, at several epsilons.

    Parameters
    ----------
    design : name of the population
    make : returns the population
    records : to draw; None for as many as the dataset has
    parameters : number of coefficients, including the intercept; None for published datasets
    """

    design: str
    family: Family
    make: Callable[[], Population]
    records: int | None = None
    parameters: int | None = None
    epsilons: tuple[float, ...] = EPSILONS
    relation: Relation = REPLACE_ONE

    def name(self, epsilon: float, draws: "Draws | None" = None) -> str:
        """Return the name of a cell, which the option `--cells` selects."""
        records, parameters = (self.records, self.parameters) if draws is None else (draws.records, draws.parameters)
        numbers = "" if records is None else f" n={records} d={parameters}"
        relation = "" if self.relation == REPLACE_ONE else f" {self.relation}"
        return f"{self.family} {self.design}{numbers} epsilon={epsilon:g}{relation}"


@dataclass(frozen=True, eq=False)
class Draws:
    """Repeated draws of records from a population.

    Parameters
    ----------
    records : of one draw
    """

    population: Population
    records: int
    relation: Relation

    @property
    def parameters(self) -> int:
        """Number of coefficients, including the intercept."""
        return 1 + sum(max(width - 1, 1) for width in self.population.columns.widths)

    def quote(self, epsilon: float) -> PlannedRun | None:
        """Return the quote of a table, or None if it is refused because it would resolve nothing."""
        own = self.population
        problem = Problem(
            Logistic() if own.family == "logistic" else Squared(),
            n=self.records,
            d=own.columns.d,
            row_norm=own.columns.row_norm,
            columns=own.columns,
            unit=own.unit,
            relation=self.relation,
        )
        try:
            return plan(RegressionTable(largest_count=own.largest_count), problem, Privacy(epsilon, DELTA))
        except Unsuitable:
            return None

    def outcomes(self, quotes: dict[float, PlannedRun], repetitions: int) -> dict[float, list["Outcome"]]:
        """Return the outcome of each repetition by epsilon; all epsilons see the same records."""
        outcomes: dict[float, list[Outcome]] = {epsilon: [] for epsilon in quotes}
        for repetition in range(repetitions if quotes else 0):
            seed = [repetition, self.records, self.parameters]
            sample = self.population.draw(self.records, np.random.default_rng(seed))
            data = _coded(next(iter(quotes.values())).problem, sample)
            for epsilon, quote in quotes.items():
                noise = np.random.default_rng([*seed, round(1000 * epsilon)])
                rival = np.random.default_rng([*seed, round(1000 * epsilon), 1])
                has_rival = repetition < _RIVAL_RUNS
                result = _table(quote, replace(data, cache={}), noise)
                outcomes[epsilon].append(_outcome(self, quote, sample, result, rival if has_rival else None))
        return outcomes


@dataclass(frozen=True, eq=False)
class Outcome:
    """The lines of one table against the coefficients at which they aim; entries are NaN where no line is given.

    Parameters
    ----------
    exists : whether any record of the population is in the levels of a coefficient
    covers, by_sampling, by_noise : whether an interval covers, with the whole standard error and with one part alone
    covers_whole : whether it covers the fit without weights; NaN for models
    width : over that of an interval without privacy
    rival_covers, rival_width : of noisy sufficient statistics, with analytic and with bootstrap intervals, (2, lines);
        empty without rivals
    """

    exists: NDArray[np.bool_]
    covers: Vector
    by_sampling: Vector
    by_noise: Vector
    covers_whole: Vector
    width: Vector
    rival_covers: Matrix
    rival_width: Matrix


def report(repetitions: int, cells: str) -> None:
    """Print a line for each cell whose name the regular expression `cells` matches."""
    print(_joined(_HEAD + _RIVALS) + "  outside the goal")
    for setting in settings():
        chosen = [epsilon for epsilon in setting.epsilons if re.search(cells, setting.name(epsilon))]
        if chosen:
            for population in available(setting.make):
                _measure(setting, population, chosen, repetitions)


def _measure(setting: Setting, population: Population, epsilons: list[float], repetitions: int) -> None:
    """Print a line for each epsilon."""
    draws = Draws(population, setting.records or population.records, setting.relation)
    accepted = {}
    for epsilon in epsilons:
        if (quote := draws.quote(epsilon)) is None:
            print(_joined([setting.name(epsilon, draws)]) + "  refused before the charge: nothing would be resolved")
        else:
            accepted[epsilon] = quote
    for epsilon, outcomes in draws.outcomes(accepted, repetitions).items():
        print(_line(setting.name(epsilon, draws), draws, epsilon, outcomes), flush=True)


def settings() -> Iterator[Setting]:
    """Return the settings of the report, the cheapest ones first."""
    for n in (1000, 5000, 30_000, 200_000):
        for d in (3, 10, 30):
            for family in FAMILIES:
                yield Setting("correlated", family, partial(designs.correlated, d, family), n, d)
                if family != "poisson":
                    yield Setting("mixed", family, partial(designs.mixed, d, family), n, d)
                    continue
                for name, is_bounded in (("mixed", False), ("mixed bounded", True)):
                    yield Setting(name, family, partial(designs.mixed_counts, d, is_bounded), n, d)
    for n in (5000, 30_000):
        for family in FAMILIES:
            correlated = partial(designs.correlated, 10, family)
            yield Setting("correlated", family, correlated, n, 10, _FEW_EPSILONS, ZERO_OUT)
        for relation in (REPLACE_ONE, ZERO_OUT):
            yield Setting("panel of persons", "logistic", designs.panel, n, 5, _FEW_EPSILONS, relation)
    yield Setting("skewed errors", "linear", partial(designs.skewed, 10), 30_000, 10, _FEW_EPSILONS)
    yield Setting("rare class", "logistic", partial(designs.rare, 10), 30_000, 10, _FEW_EPSILONS)
    yield Setting("overdispersed", "poisson", partial(designs.overdispersed, 10), 30_000, 10, _FEW_EPSILONS)
    for family in ("logistic", "linear"):
        yield Setting("misspecified", family, partial(designs.wrong, 10, family), 30_000, 10, _FEW_EPSILONS)
    for name, family, make in designs.PUBLISHED:
        yield Setting(name, family, make, epsilons=_FEW_EPSILONS)


def table_of(quote: PlannedRun, sample: Sample, rng: np.random.Generator) -> SolvedTable:
    """Return the table of a run in coded units."""
    return _table(quote, _coded(quote.problem, sample), rng)


def _coded(problem: Problem, sample: Sample) -> Data:
    """Return a sample as a run reads it."""
    return inputs.of_arrays(sample.with_constant, sample.y, problem, sample.present)


def _table(quote: PlannedRun, data: Data, rng: np.random.Generator) -> SolvedTable:
    """Return the table of a run in coded units."""
    problem = quote.problem
    assert problem.columns is not None
    assert isinstance(quote.method, RegressionTableRun)
    answers, *_ = run(quote.method, problem, data, quote.release, Noise(_Words(rng)))
    stds = Stds(problem, lambda query: quote.release.plan.query(query).noise_multiplier)
    numbers = problem.columns.widths.count(1)
    return table(problem, quote.method, answers, stds, Units((0.0,) * numbers, (1.0,) * numbers))


class _Words:
    """A seeded source of uniform words for the noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._bits = rng.bit_generator

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return that many words."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)


def _outcome(
    draws: Draws, quote: PlannedRun, sample: Sample, result: SolvedTable, rival_rng: np.random.Generator | None
) -> Outcome:
    """Return the outcome of one table, and of its rivals if they have a source of noise."""
    own = draws.population
    contrasts = np.array([row.contrast.weights for row in result.rows])
    exists = ~(contrasts[:, ~own.exists] != 0).any(axis=1)
    aims = contrasts @ own.aim(result)
    whole = contrasts @ own.whole_fit if isinstance(own, Rows) else np.full(len(aims), np.nan)
    half_without_privacy = _Z * np.sqrt(_variances(contrasts, own.covariance) / draws.records)
    names = ("estimate", "lower", "upper", "sampling_error", "noise_error")
    values = [[np.nan] * 5 if row.line is None else [getattr(row.line, name) for name in names] for row in result.rows]
    estimates, lower, upper, sampling, noise = np.array(values).T
    half = (upper - lower) / 2
    rival_covers = np.empty((2, 0))
    rival_width = np.empty((2, 0))
    is_comparable = own.family == "linear" and quote.problem.relation == REPLACE_ONE
    if rival_rng is not None and is_comparable and isinstance(own, Model):
        mu = gauss_mu(quote.release.epsilon, DELTA)
        rival = sufficient_statistics(sample, own.columns.widths, mu, rival_rng)
        ends = np.array((rival.analytic(contrasts), rival.bootstrap(contrasts, rival_rng)))
        coefficients = contrasts @ own.coefficients
        rival_covers = ((ends[:, 0] <= coefficients) & (coefficients <= ends[:, 1])).astype(float)
        rival_width = (ends[:, 1] - ends[:, 0]) / 2 / half_without_privacy
    return Outcome(
        exists=exists,
        covers=_within(estimates, aims, half),
        by_sampling=_within(estimates, aims, _Z * sampling),
        by_noise=_within(estimates, aims, _Z * noise),
        covers_whole=_within(estimates, whole, half),
        width=half / half_without_privacy,
        rival_covers=rival_covers,
        rival_width=rival_width,
    )


def _variances(contrasts: Matrix, covariance: Matrix) -> Vector:
    return np.asarray(np.maximum(np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts), 1e-300))


def _within(estimates: Vector, aims: Vector, half: Vector) -> Vector:
    """Return 1 where an interval covers its aim, otherwise 0, and NaN without an interval or an aim."""
    errors = np.abs(estimates - aims)
    return np.where(np.isfinite(errors), errors <= half, np.nan)


def _line(name: str, draws: Draws, epsilon: float, outcomes: list[Outcome]) -> str:
    """Return the printed line of a cell."""

    def stacked(field: str) -> Matrix:
        return np.array([getattr(outcome, field) for outcome in outcomes])

    covers = stacked("covers")
    width = stacked("width")
    is_given = np.isfinite(covers)
    values = [name, f"{len(outcomes)}", f"{100 * is_given.sum() / stacked('exists').sum():.0f} %"]
    if not is_given.any():
        return f"{_joined(values)}  no line is given"
    coverage = float(np.nanmean(covers))
    error = _error(covers)
    ratio = float(np.nanmean(width))
    own = [np.nanmean(column) for column in covers.T if np.isfinite(column).sum() >= _LEAST_RUNS]
    is_finite = isinstance(draws.population, Rows)
    compared = [outcome for outcome in outcomes if outcome.rival_covers.size]
    rival_covers = np.array([outcome.rival_covers for outcome in compared])
    rival_width = np.array([outcome.rival_width for outcome in compared])
    values += [
        f"{coverage:.3f} ± {error:.3f}",
        f"{min(own):.3f}" if own else "-",
        f"{ratio:.2f}",
        f"{np.nanmedian(width):.2f}",
        f"{np.nanmean(stacked('by_sampling')):.3f}",
        f"{np.nanmean(stacked('by_noise')):.3f}",
        f"{np.nanmean(stacked('covers_whole')):.3f}" if is_finite else "-",
        *(
            f"{rival_covers[:, rival].mean():.3f} {np.median(rival_width[:, rival]):4.1f}" if rival_covers.size else "-"
            for rival in range(len(_RIVALS))
        ),
    ]
    return f"{_joined(values)}  {', '.join(_missed(draws, epsilon, coverage, error, ratio))}".rstrip()


def _joined(values: Sequence[str]) -> str:
    """Return the cells of a printed row; the first one is to the left."""
    first, *others = values
    return first.ljust(_WIDTHS[0]) + "".join(
        value.rjust(width) for value, width in zip(others, _WIDTHS[1:], strict=False)
    )


def _error(covers: Matrix) -> float:
    """Return the Monte Carlo standard error of a coverage; lines of one run depend on each other."""
    is_given = np.isfinite(covers)
    totals = np.where(is_given, covers, 0.0).sum(axis=1)
    counts = is_given.sum(axis=1)
    return float(np.sqrt(((totals - totals.sum() / counts.sum() * counts) ** 2).sum()) / counts.sum())


def _missed(draws: Draws, epsilon: float, coverage: float, error: float, ratio: float) -> Iterator[str]:
    """Return the goals that a cell misses, with a question mark within two Monte Carlo errors."""
    low, high = _CORRECT_GOAL if draws.population.is_correct else _FINITE_GOAL
    if coverage < low:
        yield "covers less" + ("?" if coverage > low - 2 * error else "")
    if coverage > high:
        yield "covers more" + ("?" if coverage < high + 2 * error else "")
    has_goal = draws.records >= _WIDTH_RECORDS and draws.parameters <= _WIDTH_PARAMETERS and epsilon >= _WIDTH_EPSILON
    if has_goal and ratio > _WIDTH_GOAL:
        yield "wide"
