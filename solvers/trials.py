"""Candidates that are tried in turn, the best of which is released: as asked for, and as they run. Public facts."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from accounting.errors import OutOfRange
from accounting.mechanisms import Selection
from accounting.mechanisms.selection import MOST_RUNS
from accounting.numbers import whole
from accounting.plan import Plan, Query
from accounting.privacy import sensitivity_factor
from accounting.records.codec import plan_from_json, plan_to_json
from solvers.domains import Domain
from solvers.methods import Method, Run
from solvers.methods.run import Bounds, ChoosingRun, Strict
from solvers.preparation import Declared, Preparation, Private
from solvers.problem import Problem
from solvers.regularizers import Regularizer
from solvers.selection import Auto

CHOICE, SCORE = "selection", "score"
"""The one query of a tuning's plan, and the last of each run's."""


@dataclass(frozen=True, slots=True)
class Candidate(Strict):
    """What a run minimizes, and how; the loss, the features and the rows are those of all candidates."""

    method: Annotated[Method | Auto, Field(discriminator="name")]
    regularizer: Annotated[Regularizer, Field(discriminator="name")]
    domain: Annotated[Domain, Field(discriminator="name")]
    preparation: Annotated[Declared | Private, Field(discriminator="name")] | None
    slope_limit: float | None


@dataclass(frozen=True, slots=True)
class Candidates(Strict):
    """What is asked for: each candidate so many times."""

    candidates: tuple[Candidate, ...]
    repeats: int
    name: Literal["tuning"] = "tuning"

    def __post_init__(self) -> None:
        checked(len(self.candidates), self.repeats)


def _read(plan: Any) -> Plan:
    return plan if isinstance(plan, Plan) else plan_from_json(plan)


@dataclass(frozen=True, slots=True)
class Trial(Strict):
    """A candidate with nothing left open.

    Parameters
    ----------
    method : as it runs, every field filled in
    regularizer, domain : what it minimizes with, and over
    preparation : how rows are prepared before the method
    slope_limit : the share of the loss's slope bound that slopes are shortened to
    plan : its queries with their noise, the score's last
    """

    method: Annotated[Run, Field(discriminator="name")]
    regularizer: Annotated[Regularizer, Field(discriminator="name")]
    domain: Annotated[Domain, Field(discriminator="name")]
    preparation: Annotated[Preparation, Field(discriminator="name")]
    slope_limit: float
    plan: Annotated[Plan, BeforeValidator(_read), PlainSerializer(plan_to_json, dict[str, Any])]

    def problem(self, base: Problem) -> Problem:
        """What it minimizes, of the rows of the tuning's problem."""
        return replace(base, regularizer=self.regularizer, domain=self.domain, slope_limit=self.slope_limit)

    def gradient_evaluations(self, base: Problem) -> float:
        """The method's, and a pass for each moment and for the score."""
        problem = self.problem(base)
        met = self.preparation.prepared(problem)
        passes = 1 + len(self.preparation.bounds(problem))
        return base.unit.slots * (self.method.gradient_evaluations(met) + float(base.n) * passes)


@dataclass(frozen=True, slots=True)
class Tuning(ChoosingRun):
    """The best of len(trials) * repeats private runs by a private score, each counting with a fair coin.

    Proof: docs/proofs/tunings.md.

    Parameters
    ----------
    trials : the candidates, in the order of the request
    repeats : how often each is tried
    """

    trials: tuple[Trial, ...]
    repeats: int
    name: Literal["tuning"] = "tuning"

    def __post_init__(self) -> None:
        checked(len(self.trials), self.repeats)

    @property
    def runs(self) -> Iterator[tuple[int, Trial]]:
        """Every run that is made, in order: the candidate's number, and what runs."""
        return ((i, trial) for _ in range(self.repeats) for i, trial in enumerate(self.trials))

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """The choice."""
        return self._asked

    def bounds(self, problem: Problem) -> Bounds:  # noqa: ARG002
        """A choice among scores that are private already."""
        return {CHOICE: (1.0, 1)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Those of all runs, of the moments that they ask for, and a pass for each score."""
        return self.repeats * sum(trial.gradient_evaluations(problem) for trial in self.trials)

    def check(self, plan: Plan) -> None:
        """`OutOfRange` unless the plan pays for the choice among these runs: each is mu-GDP for the mu that it says."""
        asked = tuple(Query(query.name, query.count, query.mechanism) for query in plan.queries)
        if asked != self._asked:
            raise OutOfRange("the plan is not of a choice among as many runs")
        mu = sensitivity_factor(plan.relation) / plan.queries[0].noise_multiplier
        for trial in self.trials:
            spent, last = trial.plan.gdp(), trial.plan.queries[-1]
            if spent is None or not spent <= mu or last.name != SCORE or trial.plan.relation != plan.relation:
                raise OutOfRange("a run costs more than the choice allows, or has no score")

    @property
    def _asked(self) -> tuple[Query, ...]:
        return (Query(CHOICE, 1, Selection(len(self.trials) * self.repeats)),)


def checked(candidates: int, repeats: int) -> None:
    """`OutOfRange` unless they make 2 to 256 runs."""
    whole(repeats, "repeats", 1, MOST_RUNS)
    whole(candidates * repeats, "candidates times repeats", 2, MOST_RUNS)
