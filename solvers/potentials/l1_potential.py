"""The base of the potentials whose norm is l_p with p below 2."""

from typing import ClassVar

from solvers.problem import Problem, Vector


class L1Potential:
    """A potential that is 1-strongly convex in the l_p norm, with 1 <= p < 2.

    F is L-smooth in this norm, too: |<x, u>| <= ||x||_q ||u||_p with 1/p + 1/q = 1, and ||x||_q <= ||x||_2 <= R.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @staticmethod
    def refusal_of_quadratic(problem: Problem) -> str | None:
        """Return why r is not covered, or None if it has no quadratic part, so that mirror steps have a closed form."""
        if problem.mu > 0:
            return "its steps have no closed form with a quadratic regularizer. Use none or l1"
        return None

    def descend(self, problem: Problem, x: Vector, g: Vector, step: float, ahead: Vector) -> Vector:  # noqa: ARG002
        """Return `ahead`.

        The proof needs a point of C where ||u - x||_p^2 / 2 + step (<g, u> + r(u)) is no higher than at `ahead`.
        """
        return ahead
