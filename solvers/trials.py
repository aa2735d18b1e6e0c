"""Candidates of a tuning, as requested and as they run. All of this is public."""

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
"""Names of the only query of a tuning's plan, and of the last query of each run's plan."""


@dataclass(frozen=True, slots=True)
class Candidate(Strict):
    """The method, the penalty and the preparation of one candidate; all candidates share loss, features and rows."""

    method: Annotated[Method | Auto, Field(discriminator="name")]
    regularizer: Annotated[Regularizer, Field(discriminator="name")]
    domain: Annotated[Domain, Field(discriminator="name")]
    preparation: Annotated[Declared | Private, Field(discriminator="name")] | None
    slope_limit: float | None


@dataclass(frozen=True, slots=True)
class Candidates(Strict):
    """A request for a tuning, with the number of runs of each candidate."""

    candidates: tuple[Candidate, ...]
    repeats: int
    name: Literal["tuning"] = "tuning"

    def check_own(self) -> None:
        """Raise `OutOfRange` unless there are 2 to 256 runs."""
        checked(len(self.candidates), self.repeats)


def _read(plan: Any) -> Plan:
    return plan if isinstance(plan, Plan) else plan_from_json(plan)


@dataclass(frozen=True, slots=True)
class Trial(Strict):
    """A candidate with all fields set.

    Parameters
    ----------
    method : the resolved method
    regularizer, domain : the penalty and the domain of its problem
    preparation : how rows are prepared before the method
    slope_limit : c of `Problem`
    plan : its queries with their noise, the score last
    """

    method: Annotated[Run, Field(discriminator="name")]
    regularizer: Annotated[Regularizer, Field(discriminator="name")]
    domain: Annotated[Domain, Field(discriminator="name")]
    preparation: Annotated[Preparation, Field(discriminator="name")]
    slope_limit: float
    plan: Annotated[Plan, BeforeValidator(_read), PlainSerializer(plan_to_json, dict[str, Any])]

    def problem(self, base: Problem) -> Problem:
        """Return the candidate's problem, on the rows of the tuning's problem."""
        return replace(base, regularizer=self.regularizer, domain=self.domain, slope_limit=self.slope_limit)

    def gradient_evaluations(self, base: Problem) -> float:
        """Return those of the method, plus one pass for each moment and for the score."""
        problem = self.problem(base)
        met = self.preparation.prepared(problem)
        passes = 1 + len(self.preparation.bounds(problem))
        return base.unit.slots * (self.method.gradient_evaluations(met) + float(base.n) * passes)


@dataclass(frozen=True, slots=True)
class Tuning(ChoosingRun):
    """The best of len(trials) * repeats private runs by a private score, where a fair coin decides which runs count.

    Proof: docs/proofs/tunings.md.

    Parameters
    ----------
    trials : the candidates, in the order of the request
    repeats : number of runs of each candidate
    """

    trials: tuple[Trial, ...]
    repeats: int
    name: Literal["tuning"] = "tuning"

    def check_own(self) -> None:
        """Raise `OutOfRange` unless there are 2 to 256 runs."""
        checked(len(self.trials), self.repeats)

    @property
    def runs(self) -> Iterator[tuple[int, Trial]]:
        """All runs in order, each with the index of its candidate."""
        return ((i, trial) for _ in range(self.repeats) for i, trial in enumerate(self.trials))

    def queries(self, problem: Problem) -> tuple[Query, ...]:  # noqa: ARG002
        """Return the choice, the only query."""
        return self._choice

    def bounds(self, problem: Problem) -> Bounds:  # noqa: ARG002
        """Return the bound of a choice among private scores."""
        return {CHOICE: (1.0, 1)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return those of all runs, of their moments, and one pass for each score."""
        return self.repeats * sum(trial.gradient_evaluations(problem) for trial in self.trials)

    def check(self, plan: Plan) -> None:
        """Raise `OutOfRange` unless the plan pays for the choice among these runs, each mu-GDP for the plan's mu."""
        queries = tuple(Query(query.name, query.count, query.mechanism) for query in plan.queries)
        if queries != self._choice:
            raise OutOfRange("plan: its choice is not among this many runs. Plan the tuning again")
        mu = sensitivity_factor(plan.relation) / plan.queries[0].noise_multiplier
        for trial in self.trials:
            spent, last = trial.plan.gdp(), trial.plan.queries[-1]
            if spent is None or not spent <= mu or last.name != SCORE or trial.plan.relation != plan.relation:
                raise OutOfRange(
                    "trials: a run costs more than the choice allows, or has no score. Plan the tuning again"
                )

    @property
    def _choice(self) -> tuple[Query, ...]:
        return (Query(CHOICE, 1, Selection(len(self.trials) * self.repeats)),)


def checked(candidates: int, repeats: int) -> None:
    """Raise `OutOfRange` unless the numbers give 2 to 256 runs."""
    whole(repeats, "repeats", 1, MOST_RUNS)
    whole(candidates * repeats, "candidates times repeats", 2, MOST_RUNS)
