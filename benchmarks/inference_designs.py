"""The populations of the benchmark of regression tables: designs with few public facts, and published datasets."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pyarrow as pa

from accounting import Unit
from app.demo import data as demo
from benchmarks import datasets
from benchmarks.inference_populations import Family, Matrix, Model, Rows, Sample, Vector
from purse.wire.columns import NumberColumn
from solvers.columns import Columns

_MARGIN_STD = 1.2  # of a logistic model
_FIRST_INTERCEPT = -0.8
_FINITE = 100_000  # records of a finite population
_LOG_NORMAL_STD, _LOG_NORMAL_LARGEST = 0.8, 20.0
_BINARY_SHARES = (0.03, 0.06, 0.15, 0.3)
_LEVEL_SHARES = np.array([0.45, 0.3, 0.18, 0.06, 0.01])
_SLOTS = 4
_LARGEST_COUNT, _LOG_MEAN_STD = 10.0, 0.5


def correlated_rows(n: int, rng: np.random.Generator, p: int) -> Matrix:
    """Return numbers with correlations .6, .36, ... of standard deviation 1/4, clamped to [-1, 1]."""
    e = rng.standard_normal((n, p))
    for j in range(1, p):
        e[:, j] = 0.6 * e[:, j - 1] + 0.8 * e[:, j]
    return np.asarray(np.clip(e / 4, -1, 1))


def mixed_widths(d: int) -> tuple[int, ...]:
    """Return the layout of `mixed_rows`: numbers, indicators, and categories of five levels."""
    blocks = {3: 0, 10: 1, 30: 2}[d]
    rest = d - 1 - 4 * blocks
    indicators = max(1, rest // 3)
    return (1,) * (rest - indicators) + (2,) * indicators + (5,) * blocks


def mixed_rows(n: int, rng: np.random.Generator, widths: tuple[int, ...]) -> Matrix:
    """Return correlated numbers of which half are log-normal, rare indicators, and categories with a rare level."""
    numbers, indicators, blocks = (widths.count(width) for width in (1, 2, 5))
    factor = rng.standard_normal((n, 1))
    e = 0.6 * factor + 0.8 * rng.standard_normal((n, numbers))
    half = max(numbers // 2, 1)
    skewed = np.clip(np.exp(_LOG_NORMAL_STD * e[:, :half]), 0, _LOG_NORMAL_LARGEST) * 2 / _LOG_NORMAL_LARGEST - 1
    parts = [skewed, np.clip(e[:, half:] / 4, -1, 1)]
    for j in range(indicators):
        share = _BINARY_SHARES[j % 4] * np.exp(0.3 * factor[:, 0] - 0.045)
        parts.append(np.eye(2)[(rng.random(n) < share).astype(int)])
    for _ in range(blocks):
        level = np.searchsorted(np.cumsum(_LEVEL_SHARES), rng.random(n)).clip(0, 4)
        parts.append(np.eye(5)[level])
    return np.hstack(parts)


def drawn_model(
    name: str,
    widths: tuple[int, ...],
    rows: Callable[[int, np.random.Generator], Matrix],
    errors: Callable[[int, np.random.Generator], Vector] | None = None,
    spread: float = _MARGIN_STD,
    intercept: float = _FIRST_INTERCEPT,
) -> Model:
    """Return a model whose margins have the standard deviation `spread` and the mean `intercept`.

    Every fourth coefficient is 0. The others have alternating signs.
    """
    X = rows(60_000, np.random.default_rng(6))
    rng = np.random.default_rng(1)
    index = np.arange(X.shape[1])
    slopes = np.where(index % 2, 1.0, -0.7) * (0.4 + rng.random(len(index)))
    slopes = np.where(index % 4 == 3, 0.0, slopes)
    is_number = np.repeat(np.array(widths) == 1, widths)
    slopes = np.where(is_number, slopes / np.maximum(X.std(axis=0), 1e-9), slopes)
    slopes = slopes * spread / (X @ slopes).std()
    coefficients = np.append(slopes, intercept - float((X @ slopes).mean()))
    family: Family = "logistic" if errors is None else "linear"
    return Model(name, Columns(widths), family, rows, coefficients, errors)


def drawn_counts(
    name: str,
    widths: tuple[int, ...],
    rows: Callable[[int, np.random.Generator], Matrix],
    factors: Callable[[int, np.random.Generator], Vector] | None = None,
) -> Model:
    """Return a Poisson model whose log means have the standard deviation 1/2, and whose mean count is about 1."""
    model = drawn_model(name, widths, rows, None, _LOG_MEAN_STD, -(_LOG_MEAN_STD**2) / 2 - np.log(_LARGEST_COUNT))
    return replace(model, family="poisson", errors=factors, largest_count=_LARGEST_COUNT)


def gamma_factors(n: int, rng: np.random.Generator, variance: float) -> Vector:
    """Return factors of mean counts with the mean 1, so that counts are overdispersed."""
    return rng.gamma(1 / variance, variance, n)


def normal_errors(n: int, rng: np.random.Generator, std: float) -> Vector:
    """Return normal errors."""
    return std * rng.standard_normal(n)


def skewed_errors(n: int, rng: np.random.Generator, std: float) -> Vector:
    """Return exponential errors less their mean."""
    return std * (rng.standard_exponential(n) - 1)


@cache
def correlated(d: int, family: Family) -> Model:
    """Return correlated normal numbers; errors of a number target are normal."""
    rows, widths = partial(correlated_rows, p=d - 1), (1,) * (d - 1)
    if family == "poisson":
        return drawn_counts("correlated", widths, rows)
    if family == "linear":
        return drawn_model("correlated", widths, rows, partial(normal_errors, std=0.15), 0.15, -0.1)
    return drawn_model("correlated", widths, rows)


@cache
def mixed(d: int, family: Family) -> Model:
    """Return skewed numbers, rare indicators and categories; errors of a number target are normal."""
    widths = mixed_widths(d)
    rows = partial(mixed_rows, widths=widths)
    if family == "linear":
        return drawn_model("mixed", widths, rows, partial(normal_errors, std=0.08), 0.08, -0.3)
    return drawn_model("mixed", widths, rows)


@cache
def mixed_counts(d: int, is_bounded: bool) -> Rows:
    """Return fixed rows of `mixed` with counts.

    If `is_bounded`, log means fall in the skewed numbers, and no mean exceeds the largest count. Otherwise log means
    rise steeply in some of them. About one row in 280 has a mean above the largest count, so the model is wrong.
    """
    widths = mixed_widths(d)
    model = drawn_counts("mixed", widths, partial(mixed_rows, widths=widths))
    if is_bounded:
        X = model.rows(60_000, np.random.default_rng(6))
        slopes = model.coefficients[:-1].copy()
        skewed_numbers = max(widths.count(1) // 2, 1)
        slopes[:skewed_numbers] = -np.abs(slopes[:skewed_numbers])
        slopes *= _LOG_MEAN_STD / (X @ slopes).std()
        intercept = -np.log(np.exp(X @ slopes).mean() * _LARGEST_COUNT)
        model = replace(model, coefficients=np.append(slopes, intercept))
    rows = model.draw(_FINITE, np.random.default_rng(99))
    return Rows("mixed", model.columns, "poisson", rows, count_limit=_LARGEST_COUNT)


@cache
def skewed(d: int) -> Model:
    """Return a linear model with correlated normal numbers and exponential errors."""
    rows = partial(correlated_rows, p=d - 1)
    errors = partial(skewed_errors, std=0.1)
    return drawn_model("skewed errors", (1,) * (d - 1), rows, errors, 0.1, -0.2)


@cache
def overdispersed(d: int) -> Model:
    """Return counts whose variance exceeds their mean by half of its square."""
    rows = partial(correlated_rows, p=d - 1)
    return drawn_counts("overdispersed", (1,) * (d - 1), rows, partial(gamma_factors, variance=0.5))


@cache
def rare(d: int) -> Model:
    """Return correlated normal numbers, with a positive class of about 2 percent."""
    return drawn_model("rare class", (1,) * (d - 1), partial(correlated_rows, p=d - 1), spread=1.0, intercept=-4.3)


@cache
def wrong(d: int, family: Family) -> Rows:
    """Return a finite population for which no linear predictor is right.

    The true predictor has a square and a product. Errors of a number target are skewed, and their size depends on the
    first column.
    """
    rng = np.random.default_rng(99)
    model = correlated(d, family)
    X = model.rows(_FINITE, rng)
    margins, first = X @ model.coefficients[:-1] + model.coefficients[-1], 4 * X[:, 0]
    if family == "linear":
        spread = 0.08 * np.exp(0.5 * first)
        y = np.clip(margins + 0.05 * (first**2 - 1) + skewed_errors(_FINITE, rng, 1.0) * spread, -1, 1)
    else:
        margins = margins + 0.6 * (first**2 - 1) + 0.8 * first * 4 * X[:, 1]
        y = np.where(rng.random(_FINITE) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
    return Rows("misspecified", model.columns, family, Sample(X, y))


@cache
def panel() -> Rows:
    """Return persons with up to four rows that share columns and a random effect."""
    rng, persons, k = np.random.default_rng(5), _FINITE // 2, _SLOTS
    present = (np.arange(k) < rng.integers(0, k + 1, persons)[:, None]).ravel()
    X = np.repeat(correlated_rows(persons, rng, 4), k, axis=0)
    X[:, 3] = np.clip(rng.standard_normal(persons * k) / 4, -1, 1)
    margins = X @ np.array([3.0, -2.0, 0.0, 2.0]) - 0.5 + np.repeat(rng.standard_normal(persons), k)
    y = np.where(rng.random(persons * k) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
    everything = Sample(X * present[:, None], y, present)
    return Rows("panel of persons", Columns((1,) * 4), "logistic", everything, Unit("person", k))


def _published(name: str, family: Family, read: Callable[[], datasets.Split]) -> Rows:
    """Return all rows of a dataset, for training and for tests."""
    split = read()
    assert split.columns is not None
    X = np.vstack((split.X, split.X_test))
    y = np.concatenate((split.y, split.y_test))
    return Rows(name, split.columns, family, Sample(X[:, :-1], y))


def _health(target: str, positive: str | None) -> datasets.Split:
    """Return some columns of the RAND Health Insurance Experiment, the dataset of the demonstration."""
    names = [target, "coinsurance", "sex", "health", "age", "education", "family_size", "chronic_diseases"]
    rows = [{name: row[name] for name in names} for row in demo.rows()]
    table = pa.Table.from_pylist(rows)
    bounds = {c.name: (c.lower, c.upper) for c in demo.COLUMNS if isinstance(c, NumberColumn) and c.name in names}
    for column in bounds:
        numbers = pa.array([float(value) if value else None for value in table[column].to_pylist()])
        table = table.set_column(names.index(column), column, numbers)
    return datasets.mixed("Health insurance", table, bounds, target, positive)


_ADULT = ["age", "education_num", "hours_per_week", "sex", "race", "marital_status"]
_BANK = ["age", "duration", "campaign", "housing", "loan", "marital", "contact"]
_READ: tuple[tuple[str, Family, Callable[[], datasets.Split]], ...] = (
    ("Adult, income", "logistic", partial(datasets.adult_part, [*_ADULT, "income"], "income", ">50K")),
    ("Adult, hours", "linear", partial(datasets.adult_part, _ADULT, "hours_per_week")),
    ("Bank", "logistic", partial(datasets.bank, [*_BANK, "y"])),
    ("California housing", "linear", datasets.california),
    ("Protein", "linear", datasets.protein),
    ("Health insurance, visits", "logistic", partial(_health, demo.TARGET, demo.POSITIVE)),
    ("Health insurance, mental health", "linear", partial(_health, "mental_health", None)),
)
PUBLISHED: tuple[tuple[str, Family, Callable[[], Rows]], ...] = tuple(
    (name, family, partial(_published, name, family, read)) for name, family, read in _READ
)
"""Name, family of models, and a function that returns the rows, of each published dataset."""
