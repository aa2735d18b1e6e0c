"""Rows as the declaration codes them: nothing is asked of the data before the method."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from accounting.plan import Query
from solvers.frame import Frame
from solvers.oracles import Standardised
from solvers.problem import Problem


class Untouched:
    """What the method meets are the rows as they are stored."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    def prepared(self, problem: Problem) -> Problem:
        """The problem itself."""
        return problem

    def queries(self, problem: Problem, own: tuple[Query, ...]) -> tuple[Query, ...]:  # noqa: ARG002
        """None beside the method's own."""
        return ()

    def bounds(self, problem: Problem) -> dict[str, tuple[float, int]]:  # noqa: ARG002
        """None."""
        return {}

    def frame(self, oracle: Standardised, problem: Problem) -> Frame | None:  # noqa: ARG002
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class Declared(Untouched):
    """x as it is stored: numbers in [-1, 1] by their declared ends, categories one-hot, a constant.

    Regularizer and domain act on the coefficients of these columns. What papers do, and all there is at delta = 0.
    """

    statement: ClassVar[str] = "Rows are coded as declared; regularizer and domain act on these columns' coefficients."

    name: Literal["declared"] = "declared"


@dataclass(frozen=True, slots=True)
class ByMethod(Untouched):
    """The method standardises by itself, among its own queries."""

    statement: ClassVar[str] = (
        "The method centres and scales rows by private moments of its own, which its price includes; the regularizer "
        "acts on standardised coefficients; the model is in the original columns."
    )

    name: Literal["by_method"] = "by_method"
