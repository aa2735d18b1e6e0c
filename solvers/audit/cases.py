"""A worst-case pair for every method and every release of dp_gd.

A pair is two records among rows of zeros. Wherever the run goes, their gradients are opposite and as long as allowed,
so every answer moves by its whole sensitivity. Under zero_out, the second record is null.
"""

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from accounting.privacy import REPLACE_ONE, Privacy, Relation, Unit
from solvers import methods
from solvers.audit.attack import TestStatistic
from solvers.audit.neighbors import Row
from solvers.columns import Columns
from solvers.domains import LinfBall
from solvers.groups import CodeCondition, Groups
from solvers.inference import RegressionTable
from solvers.losses import Absolute, Hinge, Logistic, Softmax, Squared
from solvers.methods import Method
from solvers.preparation import AskedPreparation, ByProfile
from solvers.preparation.moments import Moments
from solvers.problem import Problem, Vector
from solvers.regularizers import L2
from solvers.statistics import AnyCounting, AnyStatistic, Evaluation, Table1

GUARANTEE = Privacy(4.0, 1e-5)
_N = 40
_PERSON = Unit("person", 3)
_FLAT = Problem(Squared(1.0), n=_N, d=2, row_norm=1.0)
_CURVED = Problem(Squared(1.0), L2(30.0), n=_N, d=1, row_norm=1.0)  # the minimizer stays near 0, the slopes at 1
_LINE = Problem(Squared(1.0), n=120, d=1, row_norm=1.0)
_DECLARED = Problem(Logistic(), n=400, d=3, row_norm=math.sqrt(3), columns=Columns((1, 1)))
_CODED = Problem(Squared(1.0), n=400, d=3, row_norm=math.sqrt(3), columns=Columns((1, 1)))
_CODED_PERSONS = replace(_CODED, unit=_PERSON)
_GROUPED = replace(_CODED, d=6, row_norm=2.0, columns=Columns((3, 1, 1)))
_OLDER = CodeCondition(1, ((-1.0, 2.0),))  # a condition that both records satisfy
_TABLE1 = Table1(Groups(by=1, where=(_OLDER,)), bins=4)
_SHORT = methods.AdaptiveGd(steps=3, slope_limit=1e-3)
_CLASSES = replace(_DECLARED, loss=Softmax(3))
_STATISTICS: tuple[AnyStatistic, ...] = tuple(kind() for kind in get_args(AnyStatistic))
_SPARSE = Problem(Logistic(), n=120, d=201, row_norm=math.sqrt(201), columns=Columns((1,) * 200, ((0.0, 1.0),) * 200))
_CORNERS = ((1.0, 1.0, 1.0), (-1.0, -1.0, 1.0))
_IN_GROUPS = ((1.0, 0.0, 0.0, 1.0, 1.0, 1.0), (0.0, 1.0, 0.0, -1.0, -1.0, 1.0))
_PROFILE = ByProfile(Moments((0.0, 0.0), (0.01, 0.01), (1e-3, 1e-3)))  # by which the corners are far out
_STEP = 2 / 30  # the pull is then 2, 2/3 or 1: a few descent steps reach the minimizer
# In many dimensions the noise carries w far from its anchor, while the margin of the audited row stays near 0.
_WIDE = Problem(Squared(1.0), n=_N, d=300, row_norm=1.0)
_HALF = Problem(Squared(1.0), n=_N, d=1, row_norm=1.0)
_LONG = Problem(Squared(1.0), n=128, d=1, row_norm=1.0)  # a batch of two is drawn at a rate that walks
_LONG_WIDE = Problem(Squared(1.0), n=128, d=300, row_norm=1.0)


_TYPICAL, _TYPICAL_OF_COUNTS = (0.7, 0.7, 1.0), (0.55, 0.55, 1.0)  # tables of counts limit rows to shorter ones


def _spread(slots: int, target: float) -> Row:
    """Return rows at four points around the center, half of them with either sign of the target."""
    points = [(x, y, 1.0) for x in (0.5, -0.5) for y in (0.5, -0.5)]
    targets = [target] * len(points) + [-target] * len(points)
    return Row(np.resize(points, (slots, 3)), np.resize(targets, slots))


def _misfit(slots: int) -> Row:
    """Return rows of two classes that no linear model fits: far out, the class is opposite to that near the center."""
    rows = [(x, y, 1.0) for x in (0.1, -0.1) for y in (0.1, -0.1)] * 2 + [(1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)]
    classes = [math.copysign(1.0, x) if abs(x) < 1 else -x for x, _, _ in rows]
    return Row(np.resize(rows, (slots, 3)), np.resize(classes, slots))


def first(w: Vector) -> float:
    """Return the coordinate in which the two records differ; it is larger for the first."""
    return float(w[0])


@dataclass(frozen=True, eq=False)
class Case:
    """A method with fixed settings, and the pair of records that it is attacked with.

    Parameters
    ----------
    statistic : of the release; None attacks the transcript
    position : of the row that is replaced
    targets : of the two candidate rows
    effort : how many times as many runs are made, for methods that are fast
    corners : the two candidate rows, corners of the declared columns; by default one row with two targets
    other_rows : every other row, or all rows, of which the replaced ones do not matter; zeros if None
    preparation : how rows are prepared; the default if None
    """

    method: Method | AnyCounting | RegressionTable
    problem: Problem
    statistic: TestStatistic | None = None
    position: int = 0
    privacy: Privacy = GUARANTEE
    targets: tuple[float, float] = (1.0, -1.0)
    effort: int = 1
    corners: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    other_rows: Row | None = None
    preparation: AskedPreparation | None = None

    def pair(self, relation: Relation = REPLACE_ONE) -> tuple[Row, Row]:
        """Return two records with opposite gradients; under zero_out, one and the null record."""
        x = np.zeros(self.problem.d)
        x[0] = self.problem.row_norm
        corners = self.corners or (x, x)
        first_row, second_row = (Row(np.array(corner), y) for corner, y in zip(corners, self.targets, strict=True))
        if relation == REPLACE_ONE:
            return first_row, second_row
        return first_row, Row(0.0 * first_row.x, first_row.y, is_null=True)


@dataclass(frozen=True, eq=False)
class ExactCase:
    """A choice from a public list, whose distribution on either dataset is computed instead of sampled."""

    method: methods.InverseSensitivity
    problem: Problem
    first_targets: Vector
    second_targets: Vector
    privacy: Privacy


CASES: dict[str, Case | ExactCase] = {
    "dp_gd": Case(methods.DpGd(steps=3, step=0.01), _FLAT),
    "dp_gd_last": Case(methods.DpGd(steps=20, step=0.5, release="last"), _CURVED, first),
    "dp_gd_random": Case(methods.DpGd(steps=5, step=0.01, release="random"), _FLAT),
    # Moments, and gradients in frames that follow answers. With small limits w hardly moves and all slopes are cut.
    "adaptive_gd": Case(_SHORT, _DECLARED, targets=(1.0, 1.0), corners=_CORNERS),
    "adaptive_gd_sparse": Case(_SHORT, _SPARSE, corners=((1.0,) * 201, (1.0,) * 201)),
    "adaptive_gd_softmax": Case(_SHORT, _CLASSES, targets=(1.0, 1.0), corners=_CORNERS),
    # A test finds that the limit moves the model. The two records differ in a number that the model does not use.
    "adaptive_gd_wide": Case(
        methods.AdaptiveGd(steps=14, slope_limit=2.0),
        replace(_DECLARED, n=4000),
        targets=(1.0, 1.0),
        corners=((0.0, 1.0, 1.0), (0.0, -1.0, 1.0)),
        other_rows=_misfit(4000),
    ),
    # The candidates differ in the target only, at either end. Residuals are cut at a scale that follows answers.
    "adaptive_gd_numbers": Case(methods.AdaptiveGd(steps=4), _CODED, corners=(_CORNERS[0], _CORNERS[0])),
    # Slopes of losses with a kink: their weight follows the row, their smoothing the answers about targets.
    "adaptive_gd_hinge": Case(_SHORT, replace(_DECLARED, loss=Hinge()), targets=(1.0, 1.0), corners=_CORNERS),
    "adaptive_gd_absolute": Case(_SHORT, replace(_CODED, loss=Absolute()), corners=(_CORNERS[0], _CORNERS[0])),
    # Moments that were released before, so only gradients are requested.
    "adaptive_gd_profile": Case(_SHORT, _DECLARED, targets=(1.0, 1.0), corners=_CORNERS, preparation=_PROFILE),
    "dp_gd_profile": Case(
        methods.DpGd(steps=1, step=1e-9), _CODED, targets=(1.0, 1.0), corners=_CORNERS, preparation=_PROFILE
    ),
    "dp_gd_limited": Case(
        methods.DpGd(steps=3, step=0.01), Problem(Squared(1.0), n=_N, d=2, row_norm=1.0, slope_limit=0.25)
    ),
    # Rows privately standardized: moments and gradients together. At w near 0 the other rows' residuals are 0.
    "dp_gd_standardised": Case(methods.DpGd(steps=1, step=1e-9), _CODED, targets=(1.0, 1.0), corners=_CORNERS),
    "noisy_sgd_standardised": Case(
        methods.NoisySgd(steps=6, batch=40, step=1e-9), _CODED, targets=(1.0, 1.0), corners=_CORNERS
    ),
    **{each.name: Case(each, _CODED, corners=each.audited_rows) for each in _STATISTICS},
    **{f"{each.name}_persons": Case(each, _CODED_PERSONS, corners=each.audited_rows) for each in _STATISTICS},
    # In place of two of these cases: records of different groups, at opposite ends of their numbers' ranges.
    "table1": Case(_TABLE1, _GROUPED, corners=_IN_GROUPS),
    "table1_persons": Case(_TABLE1, replace(_GROUPED, unit=_PERSON), corners=_IN_GROUPS),
    # Class and score of the two records are at opposite ends; in the second case their residuals are.
    "evaluation": Case(Evaluation(bins=4, weights=(2.0, 1.0, 0.0)), _DECLARED, corners=_CORNERS),
    "evaluation_numbers": Case(
        Evaluation(bins=4, weights=(0.5, 0.5, 0.0)), _CODED, targets=(-1.0, 1.0), corners=_CORNERS
    ),
    # The candidates differ in the target only. Their row is just long enough that scores move by their whole bounds.
    "regression_table": Case(RegressionTable(), _CODED, corners=(_TYPICAL, _TYPICAL), other_rows=_spread(400, 0.2)),
    "regression_table_logistic": Case(
        RegressionTable(), replace(_DECLARED, n=120), corners=(_TYPICAL, _TYPICAL), other_rows=_spread(120, 1.0)
    ),
    "regression_table_poisson": Case(
        RegressionTable(largest_count=10.0),
        replace(_CODED, n=600),
        corners=(_TYPICAL_OF_COUNTS, _TYPICAL_OF_COUNTS),
        other_rows=_spread(600, 0.8),
    ),
    "regression_table_persons": Case(
        RegressionTable(),
        replace(_CODED, n=400, unit=_PERSON),
        corners=(_TYPICAL, _TYPICAL),
        other_rows=_spread(1200, 0.2),
    ),
    # A person whose rows all have the same gradient, which has the opposite sign in the second dataset.
    "dp_gd_persons": Case(methods.DpGd(steps=3, step=0.01), replace(_FLAT, unit=_PERSON)),
    "noisy_sgd_persons": Case(methods.NoisySgd(steps=6, batch=16, step=0.01), replace(_FLAT, unit=_PERSON)),
    "output_perturbation_persons": Case(methods.OutputPerturbation(steps=3), replace(_CURVED, unit=_PERSON), first),
    "evaluation_persons": Case(
        Evaluation(bins=4, weights=(2.0, 1.0, 0.0)), replace(_DECLARED, unit=_PERSON), corners=_CORNERS
    ),
    "dp_acc_md": Case(methods.DpAccMd(steps=3, step=0.01), _FLAT),
    "dp_svrg": Case(methods.DpSvrg(epochs=1, inner_steps=6, batch=16, step=1.0, form="safeguarded"), _WIDE),
    "dp_svrg_pp": Case(methods.DpSvrgPp(epochs=2, inner_steps=1, batch=16, step=1.0, form="safeguarded"), _WIDE),
    # One residual is 0 and the other is always cut, so the change is u or 0. Less u/2, the two are opposite. In the
    # second case, all other rows have the change u/2, so the size of a batch reveals nothing, and steps are walked.
    "dp_svrg_centred": Case(
        methods.DpSvrg(epochs=1, inner_steps=12, batch=_N, step=0.5, form="centred"), _HALF, targets=(0.0, 1e3)
    ),
    "dp_svrg_walk_centred": Case(
        methods.DpSvrg(epochs=1, inner_steps=30, batch=2, step=0.5, form="centred"),
        _LONG,
        targets=(0.0, 1e3),
        other_rows=Row(np.array([math.sqrt(0.5)]), 0.0),
    ),
    "dp_svrg_walk": Case(
        methods.DpSvrg(epochs=1, inner_steps=30, batch=2, step=0.5, form="safeguarded"), _LONG_WIDE, targets=(1e3, -1e3)
    ),
    "noisy_mirror_descent": Case(methods.NoisyMirrorDescent(passes=2, batch=2, step=1e-4), _FLAT),
    "noisy_sgd": Case(methods.NoisySgd(steps=6, batch=16, step=0.01), _FLAT),
    "output_perturbation": Case(methods.OutputPerturbation(steps=3), _CURVED, first),
    "objective_perturbation": Case(methods.ObjectivePerturbation(), _CURVED, first, effort=4),
    "ada_ssp": Case(methods.AdaSsp(rounds=1), _FLAT, first, effort=8),
    "ada_ssp_boosted": Case(methods.AdaSsp(rounds=3), _FLAT, first, effort=8),
    # The replaced record is in the first phase, whose noise is the largest. Noise of later phases hides it very little.
    "localization": Case(
        methods.Localization(phases=4, ratio=2.0, step=_STEP, smoothing=0.0, steps=6, noise="gaussian"),
        _LINE,
        first,
        targets=(3.0, -3.0),
    ),
    "epoch_growth": Case(
        methods.EpochGrowth(
            kappa=2.0, epochs=2, phases=2, ratio=2.0, step=_STEP, smoothing=0.0, steps=6, noise="gaussian"
        ),
        _LINE,
        first,
        targets=(3.0, -3.0),
    ),
    "phased_sgd": Case(
        methods.PhasedSgd(phases=4, ratio=2.0, step=_STEP, noise="gaussian"),
        _LINE,
        first,
        targets=(3.0, -3.0),
    ),
    "output_perturbation_laplace": Case(methods.OutputPerturbation(steps=3), _CURVED, first, privacy=Privacy(2.0)),
    "growth_reduction": Case(
        methods.GrowthReduction(rounds=2, strength=2.0, steps=20, noise="gaussian"),
        _LINE,
        first,
        targets=(3.0, -3.0),
    ),
    # With two rows, the chance that the replaced one is drawn twice is largest.
    "bootstrap_reduction": Case(
        methods.BootstrapReduction(methods.OutputPerturbation(steps=3)),
        replace(_CURVED, n=2),
        first,
        privacy=Privacy(1.0, 0.0),
        effort=20,
    ),
    # The score of the wide middle moves from 1 to 0, and that of the right end from n/2 - 1 to n/2. So the exponent and
    # the normalizer both move as far as they can, in opposite directions (the pair of docs/spec 7).
    "inverse_sensitivity": ExactCase(
        methods.InverseSensitivity(grid=1024),
        Problem(Absolute(), domain=LinfBall(1.0), n=20, d=1, row_norm=1.0),
        np.array([-1.0] * 9 + [0.99] * 10 + [1.0]),
        np.array([-1.0] * 9 + [0.99] * 10 + [-1.0]),
        Privacy(1.0, 0.0),
    ),
}
