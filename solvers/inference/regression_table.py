"""Regression table: a generalized linear model with standard errors that include sampling error and privacy noise."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers import moment_bounds
from solvers.domains import Free
from solvers.errors import Unsuitable
from solvers.inference.answers import Answers, answers_size, coordinates_of
from solvers.inference.budget import MOST_PARAMETERS, TableBudget, parameters_of, step_name
from solvers.inference.coordinates import SQUARED_ROW_LIMIT, Coordinates, Stds, first_frame
from solvers.inference.families import LARGEST_SQUARED_ROW, LATE_STEP, LINEAR, LOGISTIC, STEPS, Family, PoissonFamily
from solvers.inference.path import TablePath
from solvers.inference.target import (
    LARGEST_RESIDUAL,
    Target,
    bounded_scale,
    counted_residual,
    late_scale,
    share_std,
)
from solvers.losses import Logistic, Squared
from solvers.methods.checks import check_delta
from solvers.methods.run import Bounds, Start, Strict, WeightedRun
from solvers.oracles import Weighted
from solvers.preparation import moments as column_moments
from solvers.preparation.moments import Moments, columns_of
from solvers.problem import Problem, Vector
from solvers.ranges import Real
from solvers.regularizers import NoRegularizer

LargestCount = Annotated[float | None, Real(1.0, 1e9)]


@dataclass(frozen=True, slots=True)
class RegressionTable(Strict):
    """A logistic, linear or Poisson regression whose intervals include sampling error and privacy noise.

    Private moments give coordinates, and a short path a point theta_0. At theta_0 the run releases the mean curvature
    H, the mean squared score G and the mean score g (the gradient) of weighted records. The estimate is
    theta_0 - H^-1 g.
    Its variance has a part of sampling, H^-1 G H^-1 / n, and parts of the noise of g and H. All of this is
    post-processing (`solvers.inference.estimate`).

    The parameter is that of the model, if the model is right for the declared columns; otherwise it is the best fit to
    the weighted population. A level with too few rows is left out, and a coefficient that the noise hides is not
    resolved.

    Parameters
    ----------
    level : confidence of each interval, in [0.5, 0.999]
    references : for each category the index of the level that others are compared with; the first ones by default
    largest_count : Y, for Poisson regression of a count in [0, Y] that is coded as 2 count / Y - 1; None for the family
        of the loss

    Precondition: declared columns, rows not clipped; logistic or squared loss, no regularizer, free domain, delta > 0.
    Proof: docs/proofs/regression_table.md. Reference: docs/spec 27.
    """

    level: float = 0.95
    references: tuple[int, ...] = ()
    largest_count: LargestCount = None
    name: Literal["regression_table"] = "regression_table"

    def resolve(self, problem: Problem, privacy: Privacy) -> "RegressionTableRun":
        """Return the run; raise `Unsuitable` if the problem does not suit a table, or resolves nothing."""
        check_delta(self.name, privacy)
        mu = gauss_mu(privacy.epsilon, privacy.delta)
        run = RegressionTableRun(mu, self.level, self.references, self.largest_count)
        run.check(problem, privacy)
        return run


@dataclass(frozen=True, slots=True)
class RegressionTableRun(WeightedRun):
    """Resolved settings of `RegressionTable`.

    Parameters
    ----------
    mu : Gaussian mu of the guarantee, from which shares and limits follow
    level, references, largest_count : as in `RegressionTable`
    """

    mu: Annotated[float, Real(1e-6, 1e4)]
    level: Annotated[float, Real(0.5, 0.999)] = 0.95
    references: tuple[int, ...] = ()
    largest_count: LargestCount = None
    name: Literal["regression_table"] = "regression_table"

    def family(self, problem: Problem) -> Family:
        """Return the family of models."""
        if self.largest_count is not None:
            return PoissonFamily(self.largest_count)
        return LOGISTIC if isinstance(problem.loss, Logistic) else LINEAR

    def budget(self, problem: Problem) -> TableBudget:
        """Return the public numbers that decide everything before the first answer."""
        return TableBudget.of(problem, self.mu, self.family(problem))

    def check(self, problem: Problem, privacy: Privacy) -> None:
        """Raise `Unsuitable` if the problem does not suit a table, or the budget resolves nothing."""
        check_delta(self.name, privacy)
        if not isinstance(problem.loss, Logistic | Squared):
            raise Unsuitable(
                f"regression_table: loss must be logistic or squared, not {problem.loss.name}: choose a target with "
                "two classes, a positive class, or a number"
            )
        if self.largest_count is not None and not isinstance(problem.loss, Squared):
            raise Unsuitable("regression_table: largest_count is for a number target: leave it out for classes")
        if not (isinstance(problem.regularizer, NoRegularizer) and isinstance(problem.domain, Free)):
            raise Unsuitable("regression_table: a penalty or a bounded domain would bias the estimates: leave them out")
        if problem.slope_limit < 1 or problem.moments is not None:
            raise Unsuitable("regression_table: it limits scores and standardizes rows itself: leave out both settings")
        if column_moments.are_narrow(columns_of(problem)):
            raise Unsuitable(f"regression_table: {column_moments.NARROW}")
        if refusal := self._refusal(problem):
            raise Unsuitable(f"regression_table: {refusal}")

    def _refusal(self, problem: Problem) -> str | None:
        """Return why the budget does not suffice, or the references do not fit, or None."""
        blocks = [width for width in columns_of(problem).widths if width > 1]
        if self.references and (
            len(self.references) != len(blocks)
            or not all(0 <= index < width for index, width in zip(self.references, blocks, strict=True))
        ):
            return "references must have the index of a level for each category, in order"
        d = parameters_of(problem)
        if d > MOST_PARAMETERS:
            return (
                f"the columns have {d} parameters, and at most {MOST_PARAMETERS} are supported: use fewer columns, or "
                "merge levels"
            )
        budget = self.budget(problem)
        if budget.signal < budget.family.least_signal:
            records = "persons" if problem.unit.is_person else "rows"
            return (
                f"with {d} parameters and this privacy, {budget.records_needed:,} {records} are needed, and there are "
                f"{problem.n:,}. No coefficient would be resolved: use fewer columns, merge levels, or raise epsilon"
            )
        return None

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return one query for each answer, in order."""
        columns, is_person = columns_of(problem), problem.unit.is_person
        shares = self.budget(problem).shares(problem.d > 1 or is_person, bool(columns.is_number.any()))
        return tuple(Query(query, 1, Gaussian(), share) for query, share in shares.items())

    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest bounds, without rounding, and the number of coordinates of each answer."""
        d = parameters_of(problem)
        n = problem.n
        k = sensitivity_factor(problem.relation)
        triangle, family = d * (d + 1) // 2, self.family(problem)
        score = family.score_bound * math.sqrt(LARGEST_SQUARED_ROW)
        step = min(family.score_bound, LARGEST_RESIDUAL) * math.sqrt(LARGEST_SQUARED_ROW)
        curvature = family.curvature_bound * LARGEST_SQUARED_ROW
        bounds = {
            "means": (moment_bounds.means(columns_of(problem), problem.relation, problem.unit) / n, problem.d),
            "second_moments": (SQUARED_ROW_LIMIT / math.sqrt(k) / n, triangle),
            "target_mean": (1 / n, 1),
            "target_spread": (LARGEST_RESIDUAL / k / n, 1),
            "residual": (LARGEST_RESIDUAL / k / n, 1),
            **{step_name(index): (step / n, d) for index in range(len(STEPS))},
            "curvature": (curvature / math.sqrt(k) / n, triangle),
            "squared_scores": (score**2 / math.sqrt(k) / n, triangle),
            "gradient": (score / n, d),
        }
        return {query.name: (bounds | column_moments.bounds(problem))[query.name] for query in self.queries(problem)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return a pass for each answer, and n d / 2 for each matrix, the equivalent of its products."""
        return float(problem.n) * (len(self.queries(problem)) + 1.5 * parameters_of(problem))

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:  # noqa: ARG002
        """Return why there is no bound."""
        return "A regression table is an estimate with intervals; its forecast is that of widths."

    def size(self, problem: Problem) -> int:
        """Return the number of released numbers."""
        return answers_size(problem)

    def run(self, oracle: Weighted, problem: Problem) -> Vector:
        """Return the answers, flat."""
        stds = Stds(problem, lambda query: oracle.planned(query).noise_multiplier)
        moments = _column_moments(oracle, problem)
        share = oracle.moments.share
        first = first_frame(problem, moments, share, stds)
        second = oracle.second_moments("second_moments", first, SQUARED_ROW_LIMIT)
        coordinates = coordinates_of(problem, moments, share, second, stds)
        budget = self.budget(problem)
        target, point = self._path(oracle, coordinates, stds, budget)
        weights = budget.last_weights(target, share)
        curvature = oracle.curvature("curvature", point, coordinates.frame, weights)
        squared = oracle.squared_scores("squared_scores", point, coordinates.frame, weights)
        gradient = oracle.gradient("gradient", point, coordinates.frame, weights)
        return Answers(share, moments, target, second, point, curvature, squared, gradient).flat(problem)

    def _path(
        self, oracle: Weighted, coordinates: Coordinates, stds: Stds, budget: TableBudget
    ) -> tuple[Target, Vector]:
        """Return the released numbers about the target, and the end of the path."""
        family, share = budget.family, oracle.moments.share
        target = _target(oracle, stds, family)
        w = coordinates.constant(family.start(target))
        path = TablePath(coordinates, family.longest_step)
        for index in range(len(STEPS)):
            if family.releases_scales and index == LATE_STEP:
                largest = counted_residual(target)
                residual = oracle.residual("residual", w, coordinates.frame, largest) / share
                std = stds.of_number("residual", largest) / share
                target = Target(target.mean, target.scale, late_scale(residual, std, target))
            weights = budget.path_weights(target, share, index)
            w = path.moved(w, oracle.gradient(step_name(index), w, coordinates.frame, weights), weights)
        return target, w


def _column_moments(oracle: Weighted, problem: Problem) -> Moments:
    """Return the moments of the columns; for persons, their means also release the share of slots that hold a row."""
    if problem.d == 1 and problem.unit.is_person:
        oracle.moments.means("means")
    return column_moments.answered(oracle.moments, problem)


def _target(oracle: Weighted, stds: Stds, family: Family) -> Target:
    """Return the released numbers about the target."""
    share, released = oracle.moments.share, oracle.moments.target_mean("target_mean")
    mean = family.bounded_mean(released, share_std(stds, share))
    if not family.releases_scales:
        return Target(mean)
    distance = oracle.moments.target_spread("target_spread", mean)
    std = stds.of_number("target_spread", 1 + abs(mean)) / share
    return Target(mean, bounded_scale(distance, std, LARGEST_RESIDUAL))
