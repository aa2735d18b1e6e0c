"""Audits of the methods on disjoint rows, on worst-case neighbors, and mutants that the audits must catch.

The worst case: one row whose slope stays at its bound, upwards or downwards, all other rows zero; then the point of its
phase moves by the whole sensitivity. The attacker sees every released point, knows both datasets and scores a run by
the exact log-likelihood ratio of the releases, each given the earlier ones. Runs use a seeded source; the alarm rate is
1e-9.
"""

from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import OutOfPlan
from accounting.mechanisms import Parallel
from accounting.mechanisms.mechanism import Source
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from accounting.plan import Plan
from solvers.audit.attack import excess
from solvers.audit.bounds import Scores, mu_lower_bound
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.data import Data
from solvers.losses import Squared
from solvers.methods.data import phased_sgd as phased
from solvers.methods.data.descent import Piece
from solvers.methods.data.epoch_growth import EpochGrowthRun
from solvers.methods.data.localization import LocalizationRun
from solvers.methods.data.phased_sgd import PhasedSgdRun
from solvers.methods.data.phases import Phases
from solvers.problem import Problem, Vector
from tests.support.audit import Attack, beyond, violates
from tests.support.mutants import half_noise
from tests.support.seeded import SeededBits

Method = LocalizationRun | EpochGrowthRun | PhasedSgdRun
PROMISE = Privacy(6.0, 1e-5)
PROBLEM = Problem(Squared(1.0), n=120, d=1, row_norm=1.0)
RUNS = 500
MUTANT_RUNS = 400
STEP = 2 / 30  # the pull is then 2, 2/3 or 1: a few descent steps reach the minimizer
LOCAL = LocalizationRun(phases=4, ratio=2.0, step=STEP, smoothing=0.0, steps=6, noise="gaussian")
EPOCHS = EpochGrowthRun(kappa=2.0, epochs=2, phases=2, ratio=2.0, step=STEP, smoothing=0.0, steps=6, noise="gaussian")
SGD = PhasedSgdRun(phases=4, ratio=2.0, step=STEP, noise="gaussian")
METHODS = [LOCAL, EPOCHS, SGD]
PURE = LocalizationRun(phases=4, ratio=2.0, step=STEP, smoothing=0.0, steps=6, noise="laplace")


class Watching(DataAccess):
    """An access that keeps what it releases."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.released: list[Vector] = []

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        answer = super().release(query, value, bound)
        self.released.append(answer)
        return answer


class Replaying(DataAccess):
    """An access that gives recorded answers, and keeps what a run would have made private, and its noise std."""

    def __init__(self, answers: list[Vector], *parts: Any) -> None:
        super().__init__(*parts)
        self.answers, self.values, self.stds = iter(answers), [], []  # type: ignore[var-annotated]

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        planned = self.planned(query)
        self.values.append(value)
        self.stds.append(planned.mechanism.std(planned.noise_multiplier, bound, len(value)))
        return next(self.answers)


def planned(method: Method) -> Plan:
    return calibrate(method.queries(PROBLEM), PROMISE).plan


def neighbors(position: int) -> tuple[Data, Data]:
    """Slopes of -1 and of +1 at the position, wherever the runs go; nothing elsewhere."""
    both = []
    for target in (3.0, -3.0):
        X, y = np.zeros((PROBLEM.n, 1)), np.zeros(PROBLEM.n)
        X[position], y[position] = 1.0, target
        both.append(inputs.of_arrays(X, y, PROBLEM))
    return both[0], both[1]


def replayed(method: Method, plan: Plan, data: Data, answers: list[Vector], noise: Noise) -> Replaying:
    replay = Replaying(answers, PROBLEM, data, plan, noise)
    method.run(replay, PROBLEM)
    return replay


def attacked(method: Method, plan: Plan, position: int) -> Attack:
    """Return an attack whose scores are log-likelihood ratios under Gaussian noise.

    The slopes never change. So a phase releases its move from its center, which is N(m, std^2); a replay returns m.
    """
    datasets, noises = neighbors(position), [Noise(SeededBits(7 + which)) for which in (0, 1)]
    answers = [np.zeros(1)] * plan.queries[0].answers
    first_replay, second_replay = (replayed(method, plan, data, answers, Noise(SeededBits(1))) for data in datasets)
    up, down, std = (
        np.concatenate(first_replay.values),
        np.concatenate(second_replay.values),
        np.array(first_replay.stds),
    )

    def score(data: Data, noise: Noise) -> float:
        access = Watching(PROBLEM, data, plan, noise)
        method.run(access, PROBLEM)
        moved = np.concatenate(access.released)
        return float(np.sum((up - down) * (moved - (up + down) / 2) / std**2))

    def attack(runs: int) -> tuple[Scores, Scores]:
        first, second = (
            np.array([score(data, noise) for _ in range(runs)]) for data, noise in zip(datasets, noises, strict=True)
        )
        return first, second

    return attack


def is_caught(method: Method) -> bool:
    """Return whether an audit's lower bound exceeds the guarantee."""
    plan = planned(method)
    return violates(attacked(method, plan, 0), MUTANT_RUNS, beyond(plan))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("position", [0, 90])
def test_the_guarantee_is_kept_and_nearly_reached(method: Method, position: int) -> None:
    """The whole budget is spent once on a record, in whichever phase the record is."""
    plan = planned(method)
    assert plan.queries[0].answers == 4
    both_scores = attacked(method, plan, position)(RUNS)
    promised = gauss_mu(PROMISE.epsilon, PROMISE.delta)
    assert 0.5 * promised < mu_lower_bound(*both_scores) <= promised
    assert excess(*both_scores, plan) <= 0


def test_with_laplace_noise_no_run_is_more_telling_than_epsilon() -> None:
    """Exactly: the ratio of the densities of what is released, given the past, stays within e^epsilon."""
    plan = calibrate(PURE.queries(PROBLEM), Privacy(1.0, 0.0)).plan
    datasets, noise, ratios = neighbors(40), Noise(SeededBits(3)), []
    for _ in range(100):
        access = Watching(PROBLEM, datasets[0], plan, noise)
        PURE.run(access, PROBLEM)
        logs = []
        for data in datasets:
            replay = replayed(PURE, plan, data, access.released, noise)
            errors = np.concatenate(access.released) - np.concatenate(replay.values)
            logs.append(-float(np.sum(np.sqrt(2) * np.abs(errors) / replay.stds)))
        ratios.append(abs(logs[0] - logs[1]))
    assert 0.9 < max(ratios) <= 1.0 + 1e-9


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_mutant_half_the_noise_is_caught(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lattice, "perturb", half_noise)
    assert is_caught(method)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_mutant_sensitivity_forgotten_is_caught(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """The factor two of replacing a record: as if one were only taken away."""
    original, plain = Piece.sensitivity, phased.sensitivity
    monkeypatch.setattr(Piece, "sensitivity", lambda piece, norm=0.0: original(piece, norm) / 2)
    monkeypatch.setattr(phased, "sensitivity", lambda *of: plain(*of) / 2)
    assert is_caught(method)


def first_rows(plan: Phases, _i: int) -> range:
    return range(plan.rows)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_mutant_phases_on_the_same_rows_are_refused(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Phases, "positions", first_rows)
    with pytest.raises(OutOfPlan, match="disjoint"):
        attacked(method, planned(method), 0)(1)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_mutant_phases_on_the_same_rows_are_caught(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check of positions, each release would spend the whole budget on the same record."""
    monkeypatch.setattr(Phases, "positions", first_rows)
    monkeypatch.setattr(Parallel, "source", Source())  # the release then checks no positions
    assert is_caught(method)
