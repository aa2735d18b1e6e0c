"""The spec of a job, fixed at its quote: matrix, problem, method and noise. Workers and releases read nothing else.

It consists of public facts, stored with the charge. Later changes of a declaration cannot change what runs.
"""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from accounting.plan import ReleasePlan
from accounting.records.codec import release_plan_from_json, release_plan_to_json
from accounting.records.documents import canonical_text
from app.sources.design import Design, StatisticDesign
from purse.wire.base import Wire
from solvers.methods import Run
from solvers.preparation import Declared, Preparation
from solvers.problem import Problem
from solvers.statistics import AnyCounting, AnyStatistic
from solvers.trials import Tuning

_WEIGHTS = {"method": {"weights"}}


def _read(release: Any) -> ReleasePlan:
    return release if isinstance(release, ReleasePlan) else release_plan_from_json(release)


class JobSpec(Wire):
    """One job, completely specified."""

    design: Annotated[
        Design | StatisticDesign, Field(description="The matrix: which stored columns, and how they are coded.")
    ]
    problem: Annotated[Problem, Field(description="Loss, regularizer, domain, n and bounds, of rows as declared.")]
    method: Annotated[
        Run | AnyCounting | Tuning,
        Field(discriminator="name", description="The method, resolved; a statistic; or several runs."),
    ]
    preparation: Annotated[
        Preparation, Field(discriminator="name", description="How rows are prepared before the method.")
    ] = Declared()
    release_plan: Annotated[
        ReleasePlan,
        BeforeValidator(_read),
        PlainSerializer(release_plan_to_json),
        Field(description="The queries with their noise, as charged."),
    ]

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        design, problem = self.design, self.problem
        layout = (design.columns, design.d, design.row_norm, design.outputs)
        if layout != (problem.columns, problem.d, problem.row_norm, problem.outputs):
            raise ValueError("the problem and the matrix must have the same columns, bounds and outputs")
        if isinstance(self.method, AnyStatistic) != isinstance(design, StatisticDesign):
            raise ValueError("a statistic needs a table, and a method a design with a target")
        if self.release_plan.plan.relation != problem.relation:
            raise ValueError("the plan and the problem must have the same neighbors")
        if isinstance(self.method, Tuning):
            self.method.check(self.release_plan.plan)
        if not set(self.preparation.bounds(problem)) <= {query.name for query in self.release_plan.plan.queries}:
            raise ValueError("the plan must contain the queries of the preparation")
        return self

    @property
    def stated(self) -> dict[str, Any]:
        """The method as a receipt states it; a model that is evaluated is stated by its digest."""
        method: dict[str, Any] = self.model_dump(mode="json", include={"method"}, exclude=_WEIGHTS)["method"]
        return method

    def to_json(self) -> str:
        """Return canonical JSON for `model_validate_json`, without a problem's stretch, which a run computes."""
        return canonical_text(self.model_dump(mode="json", exclude={"problem": {"stretch"}}))
