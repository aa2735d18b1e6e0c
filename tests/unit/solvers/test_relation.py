"""zero_out: a single record moves no answer by more than its per-record bound."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery, Query
from solvers import count_bounds, methods, moment_bounds
from solvers.columns import Columns
from solvers.data_access import inputs, standardised
from solvers.data_access.access import DataAccess
from solvers.data_access.counting import CountingOracle
from solvers.data_access.full_batch import FullBatchOracle
from solvers.data_access.meter import Meter
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.domains import LinfBall
from solvers.frame import Frame
from solvers.losses import Absolute, Logistic, Loss, Squared
from solvers.methods import Method
from solvers.problem import Problem, Vector
from solvers.regularizers import L2
from solvers.solve import plan, run
from solvers.statistics import Profile
from tests.support.members import name_of
from tests.support.noiseless import noiseless
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits
from tests.support.standardised import LIMITED_LOSSES

COLUMNS = Columns((1, 3, 1), ((-0.5, 1.0), (-1.0, 0.25)))
D, PRIVACY = COLUMNS.d, Privacy(1.0, 1e-6)


def one_row(corner: tuple[float, float], category: int) -> Vector:
    return np.array([[corner[0], *np.eye(3)[category], corner[1], 1.0]])


def moved(loss: Loss, x: Vector, y: float, center: Vector, limit: float, columns: Columns) -> list[tuple[float, float]]:
    """Return the distance from 0 and the bound of each answer over this record alone."""
    problem = Problem(loss, n=1, d=D, row_norm=columns.row_norm, columns=columns, relation="zero_out")
    names = ("means", "spread", "variances", "gradient", "target_mean", "target_spread", "residual",
        "histograms", "cells", "products")  # fmt: skip
    planned = Plan(tuple(PlannedQuery(name, 9, Gaussian(), 1.0) for name in names), "zero_out")
    with noiseless() as answers:
        rows, noise = inputs.of_arrays(x, np.array([y]), problem), Noise(SeededBits(1))
        oracle = StandardisedOracle(problem, rows, planned, noise)
        counting = CountingOracle(problem, rows, planned, noise)
        frame, w = Frame(center, np.ones(D - 1), 0.3), np.linspace(-2, 2, D)
        oracle.means("means")
        oracle.spread("spread", center)
        for radius in (0.3, 1.5, 9.0):
            oracle.variances("variances", center, radius)
        counting.histograms("histograms", 4)
        counting.cells("cells", 4)
        counting.products("products", center)
        oracle.gradient("gradient", w, frame, limit, 0.6)
        if loss.takes == "number":
            oracle.target_mean("target_mean")
            oracle.target_spread("target_spread", 0.4)
            oracle.residual("residual", w, frame, 0.7)
    return [(float(np.linalg.norm(value)), bound) for value, bound in answers]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [loss for loss in LIMITED_LOSSES if loss.outputs == 1], ids=repr)
@given(data=st.data())
def test_moments_and_framed_gradients(loss: Loss, data: st.DataObject) -> None:
    numbers = data.draw(st.floats(-0.5, 1.0)), data.draw(st.floats(-1.0, 0.25))
    center = np.array([data.draw(st.floats(-0.5, 1)), 0.2, 0.9, 0.0, data.draw(st.floats(-1, 0.25))])
    x, y = one_row(numbers, data.draw(st.integers(0, 2))), data.draw(st.sampled_from([-1.0, 1.0]))
    for distance, bound in moved(loss, x, y, center, data.draw(st.floats(0.01, 2)), COLUMNS):
        assert distance <= bound


def test_their_bounds_are_attained() -> None:
    center = np.array([-0.5, 0.2, 0.9, 0.0, 0.25])
    movements = moved(Squared(), one_row((1.0, -1.0), 1), -1.0, center, 0.5, COLUMNS)
    shares = [distance / bound for distance, bound in movements]
    assert len(shares) == 12
    assert min(share for i, share in enumerate(shares) if i not in (2, 3)) > 1 - 1e-9
    assert max(shares) < 1 + 1e-9
    assert min(shares) > 0.7  # squares that are shortened have that l1 norm, and need not be in one coordinate


@pytest.mark.parametrize("module", [moment_bounds, count_bounds, standardised])
def test_mutant_half_of_the_distance_of_two_records_is_caught(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The factor of replace_one is too small for counts, squares and distances, which are 0 for a null record."""
    monkeypatch.setattr(module, "sensitivity_factor", lambda _relation: 2.0)
    center = np.array([-0.5, 0.2, 0.9, 0.0, 0.25])
    movements = moved(Squared(), one_row((1.0, -1.0), 1), -1.0, center, 0.5, COLUMNS)
    assert any(distance > bound for distance, bound in movements)


_PLAIN = Problem(Logistic(), n=50, d=2, row_norm=1.0)
_PENALIZED = replace(_PLAIN, regularizer=L2(0.1))
_DECLARED = Problem(Squared(), n=50, d=D, row_norm=COLUMNS.row_norm, columns=COLUMNS)
SIZED: dict[str, tuple[Method | Profile, Problem]] = {
    "dp_gd": (methods.DpGd(steps=3), _PLAIN),
    "dp_gd_last": (methods.DpGd(steps=3, release="last"), _PENALIZED),
    "dp_svrg": (methods.DpSvrg(epochs=2, inner_steps=3, batch=10), _PLAIN),
    "dp_svrg_pp": (methods.DpSvrgPp(epochs=2, inner_steps=3, batch=10), _PLAIN),
    "dp_acc_md": (methods.DpAccMd(steps=3), _PLAIN),
    "noisy_sgd": (methods.NoisySgd(steps=3, batch=10), _PLAIN),
    "noisy_mirror_descent": (methods.NoisyMirrorDescent(passes=1, batch=5), _PLAIN),
    "ada_ssp": (methods.AdaSsp(), Problem(Squared(), n=50, d=2, row_norm=1.0)),
    "objective_perturbation": (methods.ObjectivePerturbation(), _PENALIZED),
    "output_perturbation": (methods.OutputPerturbation(), _PENALIZED),
    "localization": (methods.Localization(phases=1), _PLAIN),
    "epoch_growth": (methods.EpochGrowth(epochs=1, phases=1), _PLAIN),
    "phased_sgd": (methods.PhasedSgd(phases=1), _PLAIN),
    "bootstrap_reduction": (methods.BootstrapReduction(methods.OutputPerturbation()), _PENALIZED),
    "inverse_sensitivity": (
        methods.InverseSensitivity(grid=16),
        Problem(Absolute(), domain=LinfBall(1.0), n=50, d=1, row_norm=1.0),
    ),
    "adaptive_gd": (methods.AdaptiveGd(steps=4), _DECLARED),
    "profile": (Profile(), _DECLARED),
}
SIZED |= {name_of(kind): (kind(), _PLAIN) for kind in get_args(Method) if name_of(kind) not in SIZED}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SIZED))
def test_every_method_runs_by_its_problems_relation(name: str) -> None:
    """The noise is at most that of replace_one, and a plan of the opposite relation is refused."""
    method, replaced = SIZED[name]
    zeroed = replace(replaced, relation="zero_out")
    pure = name in ("inverse_sensitivity", "bootstrap_reduction")
    privacy = Privacy(1.0) if pure else PRIVACY
    quote, replaced_quote = (plan(method, problem, privacy) for problem in (zeroed, replaced))
    assert quote.release.plan.relation == "zero_out"
    queries = tuple(Query(q.name, q.count, q.mechanism) for q in quote.release.plan.queries)
    noises = [calibrate(queries, privacy, relation).plan.queries for relation in ("zero_out", "replace_one")]
    for query, replaced_query in zip(*noises, strict=True):
        assert query.noise_multiplier <= replaced_query.noise_multiplier * (1 + 1e-3)
    rng = np.random.default_rng(3)
    if replaced.columns is not None:
        ends = (rng.uniform((-0.5, -1), (1, 0.25)) for _ in range(50))
        rows = np.concatenate([one_row((float(low), float(high)), i % 3) for i, (low, high) in enumerate(ends)])
    else:
        rows = rng.normal(size=(50, replaced.d))
    y = rng.choice([-1.0, 1.0], 50)
    data = inputs.of_arrays(rows, y, quote.problem)
    transcript = run_quote(quote, data, 2)[1]
    assert transcript.relation == "zero_out"
    assert quote.release.plan.covers(transcript)
    with pytest.raises(OutOfPlan, match="neighbors"):
        run(
            quote.method,
            replaced_quote.problem,
            inputs.of_arrays(rows, y, replaced_quote.problem),
            quote.release,
            preparation=quote.preparation,
        )


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_oracles_refuse_plans_of_other_neighbors(relation: Any) -> None:
    problem = Problem(Logistic(), n=4, d=2, row_norm=1.0, relation=relation)
    data = inputs.of_arrays(np.eye(4)[:, :2], np.ones(4), problem)
    opposite = "replace_one" if relation == "zero_out" else "zero_out"
    for oracle in (FullBatchOracle, SampledOracle, DataAccess):
        oracle(problem, data, Plan((), relation), Noise())
        with pytest.raises(OutOfPlan, match="neighbors"):
            oracle(problem, data, Plan((), opposite), Noise())  # type: ignore[arg-type]


@pytest.mark.parametrize(("relation", "steps"), [("zero_out", 1), ("replace_one", 2)])
def test_both_runs_may_miss_the_perturbed_minimizer(relation: Any, steps: int) -> None:
    """Each run may miss it by its radius r, so the noise must hide 2 r under both relations."""
    problem = Problem(Logistic(), L2(0.1), n=50, d=2, row_norm=1.0, relation=relation)
    quote, bounds = plan(methods.ObjectivePerturbation(), problem, PRIVACY), dict[str, float]()
    radius = getattr(quote.method, "radius", math.nan)

    def perturb(_: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        bounds[planned.name] = bound
        return value

    rng = np.random.default_rng(3)
    data = inputs.of_arrays(rng.normal(size=(50, 2)), rng.choice([-1.0, 1.0], 50), problem)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Meter, "perturb", perturb)
        run_quote(quote, data, 2)
    assert steps * bounds["approximation"] == 2 * radius
    assert bounds["minimizer"] >= problem.G
