"""Accuracy of forecasts on a real dataset: the forecast of each source beside the method's result on the data.

The dataset is the RAND Health Insurance Experiment (app/demo). Every fifth row is not uploaded. Half of these rows
score the models of the data, and the other half is the public sample. The signal is that of the data's best model
without noise, which an analyst has to guess. The last two forecasts have half and twice this signal.
"""

import csv
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accounting import Privacy
from app.calculation.forecasts import TrialRows, best, scorer
from app.demo import data
from app.quotes.forecasts import forecast_locally, read_sample
from app.results import profiles
from app.settings import Settings
from app.sources.design import Design, StatisticDesign
from app.sources.spec import JobSpec
from app.sources.twins import ColumnLaw, Sample, Twin, profiled
from app.wire import ForecastRequest
from purse.wire.budgets import Budget
from purse.wire.datasets import DatasetSpec
from purse.wire.forecasts import EPSILONS
from solvers import Problem, plan
from solvers.losses import Logistic, Squared
from solvers.selection import Auto
from solvers.solve import data_of, release, run
from solvers.statistics import Profile

DELTA = 1e-6
TARGETS = (data.TARGET, "income")
PRICE = 0.2  # of the profile


@dataclass(frozen=True)
class Case:
    """A target on the data: the declaration, the design of its job, the problem, and the trial on the rows."""

    spec: DatasetSpec
    design: Design
    problem: Problem
    trial: TrialRows


def report(seeds: int) -> None:
    """Print for each target the median over runs on the data, then each forecast and its distance from the median."""
    spec = data.spec(Budget(epsilon=5.0, delta=DELTA)).settled()
    uploaded, holdout = data.split(data.rows())
    rows, test, sample = (coded(part, spec) for part in (uploaded, holdout[::2], holdout[1::2]))
    for target in TARGETS:
        case = case_of(spec, target, rows, test)
        signal, optimum, truth = truth_of(case, seeds)
        laws = profile_of(spec, rows)
        ways: list[tuple[str, Sample | Twin | None, float]] = [
            ("declaration", None, signal),
            (f"profile of {PRICE:g}", Twin(laws, spec.dialect), signal),
            ("public sample", sample, signal),
            ("profile, half the signal", Twin(laws, spec.dialect), signal / 2),
            ("profile, twice the signal", Twin(laws, spec.dialect), min(0.99, 2 * signal)),
        ]
        kind = "accuracy" if case.design.classes else "r2"
        runs = f"{seeds} runs at each epsilon; signal {signal:.3f}"
        print(f"\n{target}: {kind}, n = {len(rows.rows)}, delta {DELTA:g}, {runs}")
        print(f"{'':<28}{'optimum':>10}" + "".join(f"{f'eps {e:g}':>10}" for e in EPSILONS))
        print(f"{'the data':<28}{optimum:>10.3f}" + "".join(f"{score:>10.3f}" for score in truth))
        for name, drawn, strength in ways:
            body = ForecastRequest(dataset="d", target=target, signal=strength, runs=max(3, seeds))
            forecast = forecast_locally(spec, len(rows.rows), body, Settings(), drawn)
            medians = [each.score.median for each in forecast.at]
            print(f"{name:<28}{forecast.optimum:>10.3f}" + "".join(f"{score:>10.3f}" for score in medians))
            errors = [m - t for m, t in zip(medians, truth, strict=True)]
            loss_errors = [(forecast.optimum - m) - (optimum - t) for m, t in zip(medians, truth, strict=True)]
            print(f"{'  away from the data':<38}" + "".join(f"{value:>+10.3f}" for value in errors))
            print(f"{'  in what noise takes away':<38}" + "".join(f"{v:>+10.3f}" for v in loss_errors), flush=True)


def coded(rows: list[data.Row], spec: DatasetSpec) -> Sample:
    """Return rows as the service stores them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return read_sample(file, spec)


def case_of(spec: DatasetSpec, target: str, rows: Sample, test: Sample) -> Case:
    """Return the case of a target on training rows and test rows."""
    design = Design.of(spec, ForecastRequest(dataset="d", target=target).job)
    loss = Logistic() if design.classes else Squared()
    problem = Problem(loss, n=len(rows.rows), d=design.d, row_norm=design.row_norm, columns=design.columns)
    parts = []
    for part in (rows.rows, test.rows):
        own = part[:, design.target_position]
        y = own if design.classes is None else design.labels(own)
        parts.append(({f.name: column for f, column in zip(design.features, design.encoded(part), strict=True)}, y))
    (X, y), (test_X, test_y) = parts
    return Case(spec, design, problem, TrialRows(X, y, None, test_X, test_y))


def truth_of(case: Case, seeds: int, epsilons: Sequence[float] = EPSILONS) -> tuple[float, float, list[float]]:
    """Return the signal, the score of the best model without noise, and the median of private ones by epsilon."""
    trial, score = case.trial, scorer(case.design, case.trial)
    optimum = score(best(case.problem, False, trial))[0]
    constant = np.unique(trial.test_y, return_counts=True)[1].max() / len(trial.test_y) if case.design.classes else 0.0
    medians = []
    for epsilon in epsilons:
        quote = plan(Auto(), case.problem, Privacy(epsilon, DELTA))
        medians.append(
            float(np.median([score(release(quote, trial.rows, trial.y).coefficients)[0] for _ in range(seeds)]))
        )
    return float((optimum - constant) / (1 - constant)), optimum, medians


def profile_of(spec: DatasetSpec, rows: Sample) -> tuple[ColumnLaw, ...]:
    """Return the laws of the columns by a profile of the rows that is released once."""
    table = StatisticDesign.of(spec)
    problem = Problem(Squared(), n=len(rows.rows), d=table.d, row_norm=table.row_norm, columns=table.columns)
    quote = plan(Profile(), problem, Privacy(PRICE, DELTA))
    X = {column.name: rows.rows[:, j] for j, column in enumerate(spec.columns)}
    answers, *_ = run(quote.method, problem, data_of(problem, X, np.zeros(len(rows.rows))), quote.release)
    job = JobSpec(design=table, problem=problem, method=Profile(), release_plan=quote.release)
    return profiled(profiles.columns(job, answers))
