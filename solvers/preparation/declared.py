"""Preparations that need no answers of their own: rows as declared, or standardized by the method."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from accounting.plan import Query
from solvers.frame import Frame
from solvers.oracles import Standardised
from solvers.problem import Problem


class WithoutQueries:
    """A preparation without queries, which passes stored rows to the method unless a subclass frames them."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    def prepared(self, problem: Problem) -> Problem:
        """Return the problem unchanged."""
        return problem

    def queries(self, problem: Problem, own: tuple[Query, ...]) -> tuple[Query, ...]:  # noqa: ARG002
        """Return no queries."""
        return ()

    def bounds(self, problem: Problem) -> dict[str, tuple[float, int]]:  # noqa: ARG002
        """Return no bounds."""
        return {}

    def frame(self, oracle: Standardised, problem: Problem) -> Frame | None:  # noqa: ARG002
        """Return None, because there is no frame."""
        return None


@dataclass(frozen=True, slots=True)
class Declared(WithoutQueries):
    """Rows as stored: numbers in [-1, 1] by their declared ends, categories one-hot, and a constant.

    Regularizer and domain act on the coefficients of these columns, as in the papers. At delta = 0 this is the only
    preparation.
    """

    statement: ClassVar[str] = (
        "Rows are coded as declared. The regularizer and the domain act on the coefficients of these columns."
    )

    name: Literal["declared"] = "declared"


@dataclass(frozen=True, slots=True)
class ByMethod(WithoutQueries):
    """A preparation by the method, which standardizes with queries of its own."""

    statement: ClassVar[str] = (
        "The method standardizes rows by private moments of its own, which its price includes. A regularizer acts on "
        "standardized coefficients. The model is in the original columns."
    )

    name: Literal["by_method"] = "by_method"
