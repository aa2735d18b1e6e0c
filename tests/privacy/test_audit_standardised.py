"""Every answer of a standardised run by itself: a pair that moves it as far as its noise is made for, and a fault of
its noise alone, which the audit of the whole transcript must catch.

`test_audit_cases.py` halves the noise of all answers at once, most of which is the gradients'; here is what the others
are worth.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from accounting import Privacy
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor
from solvers import moment_bounds
from solvers import plan as plan_of
from solvers.audit.attack import Attack, halved
from solvers.audit.bounds import Scores
from solvers.audit.cases import CASES, Case
from solvers.audit.findings import attacked
from solvers.audit.gaussian import ExactMeter, GaussianAttacker, RecordingMeter
from solvers.audit.neighbors import Row, neighbor
from solvers.columns import Columns
from solvers.data_access.counting import CountingOracle
from solvers.data_access.moment_sums import Limited, ResidualSum, Targets
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.unfolded import rows_of
from solvers.data_access.with_moments import split
from solvers.frame import Frame
from solvers.losses import Absolute, Logistic, Loss, Softmax, Squared
from solvers.losses.smoothing import BoundedSlope
from solvers.methods import AdaptiveGd, DpGd
from solvers.oracles import Counting
from solvers.preparation import ByProfile
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector
from solvers.solve import PlannedRun
from solvers.statistics import Profile
from tests.support.audit import beyond, sources, violates
from tests.support.standardised import LIMITED_LOSSES, limited

RUNS = 300
PRIVACY = Privacy(6.0, 1e-5)
CODED = Problem(Squared(), n=400, d=3, row_norm=math.sqrt(3), columns=Columns((1, 1)))
NUMBERS, CLASSES = AdaptiveGd(steps=1), AdaptiveGd(steps=1, slope_limit=0.05)
SOME = Moments((0.0, 0.0), (0.1, 0.1), (0.01, 0.01))
LARGE_ROW, OPPOSITE_ROW, SMALL_ROW = (1.0, 1.0, 1.0), (-1.0, -1.0, 1.0), (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Pair:
    """Two records by which an answer moves most, and which share of its sensitivity that is, at least."""

    corners: tuple[tuple[float, ...], tuple[float, ...]]
    targets: tuple[float, float]
    loss: Loss = Squared()  # noqa: RUF009
    share: float = 0.95

    def case(self, relation: Relation = REPLACE_ONE) -> Case:
        method = NUMBERS if isinstance(self.loss, Squared) else CLASSES
        problem = replace(CODED, loss=self.loss, relation=relation)
        return Case(method, problem, targets=self.targets, corners=self.corners)


ENDS = {"class": (1.0, 1.0), "number": (1.0, -1.0)}
# Other rows are zeros, so that means and targets' means are noise about 0. One at the center and one far out move the
# spread; two far out in other coordinates, each cut to one length, the variances; residuals are cut at a few times the
# noise of the targets' mean, by which the first model is off.
PAIRS = {
    "means": Pair((LARGE_ROW, OPPOSITE_ROW), (1.0, 1.0)),
    "spread": Pair((SMALL_ROW, LARGE_ROW), (1.0, 1.0), share=0.8),
    "variances": Pair(((1.0, 0.0, 1.0), (0.0, 1.0, 1.0)), (1.0, 1.0), share=0.9),
    "target_mean": Pair((LARGE_ROW, LARGE_ROW), (1.0, -1.0)),
    "target_spread": Pair((LARGE_ROW, LARGE_ROW), (0.0, 1.0), share=0.9),
    "residual": Pair((SMALL_ROW, SMALL_ROW), (0.0, 1.0), share=0.5),
    "gradient": Pair((LARGE_ROW, LARGE_ROW), (1.0, -1.0)),
    "gradient-logistic": Pair((LARGE_ROW, OPPOSITE_ROW), (1.0, 1.0), Logistic()),
    "gradient-softmax": Pair((LARGE_ROW, OPPOSITE_ROW), (1.0, 1.0), Softmax(3), share=0.9),
}
# Slopes of other losses are at most their bound, and lopsided ones reach it on one side only.
PAIRS |= {
    f"gradient-{loss}": Pair(
        (LARGE_ROW, OPPOSITE_ROW if loss.takes == "class" else LARGE_ROW), ENDS[loss.takes], loss, share=0.5
    )
    for loss in LIMITED_LOSSES
    if isinstance(loss, BoundedSlope)
}
every = pytest.mark.parametrize("name", PAIRS)


@every
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_each_pair_moves_its_answer_by_the_bound_and_no_other_answer_by_more(
    name: str, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = exact_answers(PAIRS[name].case(relation), relation, monkeypatch)
    shares = {
        query: [answer.moved / (sensitivity_factor(relation) * answer.bound) for answer in own]
        for query, own in answers.items()
    }
    assert all(share <= 1 + 1e-9 for found in shares.values() for share in found)
    if relation == REPLACE_ONE:
        assert np.mean(shares[name.split("-")[0]]) >= PAIRS[name].share


def test_a_pair_moves_gradients_by_most_of_the_bound_before_and_after_the_limit_is_widened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES["adaptive_gd_wide"]
    assert isinstance(case, Case)
    gradients = exact_answers(case, REPLACE_ONE, monkeypatch)["gradient"]
    limits = np.reshape([case.problem.n * answer.bound for answer in gradients], (-1, 14))
    assert limits == pytest.approx(np.tile([1.0] * 3 + [2.0] * 11, (10, 1)), rel=1e-6)
    shares = np.reshape([answer.moved / (2 * answer.bound) for answer in gradients], (-1, 14))
    assert (shares <= 1 + 1e-9).all()
    assert (shares.mean(axis=0) >= 0.8).all()


@dataclass(frozen=True)
class ExactAnswer:
    """How far an answer without noise moves between both datasets, and the per-record bound of its noise."""

    moved: float
    bound: float


def exact_answers(case: Case, relation: Relation, patched: pytest.MonkeyPatch) -> dict[str, list[ExactAnswer]]:
    """Return the answers of five attacked runs on either dataset, by query: values on both datasets alternate."""
    values: defaultdict[str, list[tuple[Vector, float]]] = defaultdict(list)

    def measure(kind: type[RecordingMeter | ExactMeter]) -> None:
        perturb = kind.perturb

        def measured(meter: Any, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
            values[planned.name].append((value, bound))
            return perturb(meter, planned, value, bound)

        patched.setattr(kind, "perturb", measured)

    measure(RecordingMeter)
    measure(ExactMeter)
    plan, attack = attacked(case, PRIVACY, relation)
    attack(plan, 5, sources(2))
    assert set(values) == {query.name for query in plan.queries}
    return {
        query: [
            ExactAnswer(float(np.linalg.norm(one - other)), bound)
            for (one, bound), (other, _) in zip(own[::2], own[1::2], strict=True)
        ]
        for query, own in values.items()
    }


@pytest.mark.slow
@every
def test_one_answer_whose_noise_is_too_small_is_caught(name: str) -> None:
    """The noise of one answer is so small that this answer alone reveals more than twice the guarantee."""
    plan, attack = attacked(PAIRS[name].case(), PRIVACY)
    query = name.split("-")[0]

    def caught(noisy: Plan) -> bool:
        return violates(lambda runs: attack(noisy, runs, sources(4)), RUNS, beyond(plan))

    def spent(query: str) -> float:
        planned = plan.query(query)
        return planned.count / planned.noise_multiplier**2

    whole, own = sum(spent(each.name) for each in plan.queries), spent(query)
    noise_factor = math.sqrt(own / whole) / (2.5 / PAIRS[name].share)
    faulty = tuple(
        replace(each, noise_multiplier=each.noise_multiplier * (noise_factor if each.name == query else 1.0))
        for each in plan.queries
    )
    assert (caught(plan), caught(replace(plan, queries=faulty))) == (False, True)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3), Absolute()], ids=lambda loss: str(loss.name))
def test_persons_with_full_places_keep_their_guarantee_and_half_the_noise_is_caught(loss: Loss) -> None:
    """Means are over the places that hold a row, a share that is released, and half the noise is seen."""
    method = NUMBERS if isinstance(loss, Squared) else CLASSES
    corners = (LARGE_ROW, LARGE_ROW) if loss.takes == "number" else (LARGE_ROW, OPPOSITE_ROW)
    problem = replace(CODED, loss=loss, n=150, unit=Unit("person", 3))
    targets = (1.0, -1.0) if loss.takes == "number" else (1.0, 1.0)
    plan, attack = attacked(Case(method, problem, targets=targets, corners=corners), PRIVACY)

    def caught(noisy: Plan) -> bool:
        return violates(lambda runs: attack(noisy, runs, sources(6)), 2 * RUNS, beyond(plan))

    assert (caught(plan), caught(halved(plan))) == (False, True)


@pytest.mark.slow
def test_a_profile_and_a_job_that_uses_it_keep_the_sum_of_their_guarantees() -> None:
    """An attacker sees both transcripts. In every run the job uses the moments that the profile released."""
    statistic, each = Profile(bins=4), Privacy(4.0, 1e-5)
    released = plan_of(statistic, CODED, each).release.plan
    rows = Case(statistic, CODED, targets=(1.0, 1.0), corners=(LARGE_ROW, OPPOSITE_ROW)).pair()
    pair = [neighbor(CODED, row) for row in rows]

    def by(moments: Moments) -> PlannedRun:
        return plan_of(DpGd(steps=1, step=1e-9), CODED, each, preparation=ByProfile(moments))

    together = replace(released, queries=released.queries + by(SOME).release.plan.queries)

    def scored(which: int, noisy: Plan, noise: Noise) -> float:
        profile_plan, job_plan = split(noisy, {query.name for query in released.queries})
        oracles = (CountingOracle(CODED, pair[i], profile_plan, noise) for i in (which, 1 - which))
        counting = GaussianAttacker(which, *oracles)
        moments, _, _ = statistic.unpack(CODED, statistic.run(cast(Counting, counting), CODED))
        job = by(moments)
        attack = Attack(job.method, job.problem, rows, preparation=job.preparation)
        return counting.score + attack.score(which, job_plan, noise)

    def caught(noisy: Plan) -> bool:
        noise = sources(8)

        def attack(runs: int) -> tuple[Scores, Scores]:
            first, second = (np.array([scored(which, noisy, noise(which)) for _ in range(runs)]) for which in (0, 1))
            return first, second

        return violates(attack, RUNS + RUNS // 2, beyond(together))

    assert (caught(together), caught(halved(together))) == (False, True)


class Leaking(StandardisedOracle):
    """An oracle that counts noisy answers and returns other values."""

    def target_mean(self, query: str) -> float:
        super().target_mean(query)
        return float(self._data.total(Targets())) / self._problem.slots

    def target_spread(self, query: str, center: float) -> float:
        return super().target_spread(query, center) + 1e-9 * float(self._data.total(Targets()))

    def both(self, *queries: str) -> list[float]:
        return [super(Leaking, self).target_mean(query) for query in queries]


def _attacked_by(which: int, noise: Noise) -> tuple[GaussianAttacker, Vector]:
    """Return an attacker of the oracle on one of two datasets, and the two means of the targets."""
    rows = [Row(np.array(LARGE_ROW), y) for y in (1.0, -1.0)]
    pair = [neighbor(CODED, row) for row in rows]
    plan, _ = attacked(PAIRS["target_mean"].case(), PRIVACY)
    oracles = (Leaking(CODED, pair[i], plan, noise) for i in (which, 1 - which))
    return GaussianAttacker(which, *oracles), np.array([own.y.sum() / CODED.slots for own in pair])


@pytest.mark.parametrize("which", [0, 1])
def test_a_result_with_an_exact_value_is_detected(which: int) -> None:
    for request in (("target_mean",), ("target_spread", 0.0)):
        attacker, _ = _attacked_by(which, sources(3)(which))
        getattr(attacker, request[0])(*request)
        assert attacker.score * (1 - 2 * which) > 1e6


def test_each_answer_to_one_request_is_scored() -> None:
    attacker, means = _attacked_by(0, sources(3)(0))
    answers = attacker.both("target_mean", "target_spread")
    bound = moment_bounds.of_means(CODED, 1.0, 1.0)
    planned = (attacker.planned(query) for query in ("target_mean", "target_spread"))
    stds = (query.mechanism.std(query.noise_multiplier, bound, 1) for query in planned)
    scores = [
        (answer - means.mean()) * (means[0] - means[1]) / std**2 for answer, std in zip(answers, stds, strict=True)
    ]
    assert attacker.score == pytest.approx(sum(scores))


@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
def test_a_sum_of_limited_gradients_is_the_sum_that_numpy_computes(loss: Loss) -> None:
    """Compare the compiled loops with NumPy on one row among zeros. Rounding is far below 1e-9 in both."""
    problem, rng = replace(CODED, loss=loss), np.random.default_rng(3)
    for _ in range(20):
        row = Row(np.append(rng.uniform(-1, 1, 2), 1.0), float(rng.integers(max(loss.outputs, 2))))
        data = neighbor(problem, row, 3)
        frame = Frame(rng.uniform(-0.5, 0.5, 2), rng.uniform(0.1, 5, 2), 0.3)
        W, limit = rng.normal(size=(loss.outputs, 3)), float(rng.uniform(0.01, 2))
        z = frame.rows(rows_of(data))
        t = limited(loss, z @ W.T, data.y, limit / np.linalg.norm(z, axis=1))
        np.testing.assert_allclose(data.total(Limited(frame, W, limit)), t.T @ z, rtol=1e-9, atol=1e-9)
        assert (np.linalg.norm(t, axis=1) * np.linalg.norm(z, axis=1) <= limit * (1 + 1e-9)).all()
        if loss.takes == "number":
            missed = np.minimum(np.abs(z @ W[0] - data.y), limit).sum()
            assert float(data.total(ResidualSum(frame, W[0], limit))) == pytest.approx(missed, rel=1e-9)
