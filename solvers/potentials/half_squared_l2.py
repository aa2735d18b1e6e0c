"""The Euclidean potential, w(x) = ||x||_2^2 / 2."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from solvers.domains import Free
from solvers.problem import Problem, Vector
from solvers.regularizers import NoRegularizer


@dataclass(frozen=True, slots=True)
class HalfSquaredL2:
    """Half the squared l2 norm, w(x) = ||x||_2^2 / 2, for every domain.

    It is 1-strongly convex in the l2 norm, with B_w(u, x) = ||u - x||_2^2 / 2.

    On the ball of radius rho, this is rho^2 times the potential that is 1-strongly convex in the ball's Minkowski norm
    ||.||_2 / rho. The factor cancels in every step of dp_acc_md, so neither symmetry nor a bounded domain is needed.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["half_squared_l2"] = "half_squared_l2"

    def refusal(self, problem: Problem) -> str | None:  # noqa: ARG002
        """Return None, because every problem is covered."""
        return None

    def noise_norm(self, problem: Problem) -> float:
        """Return E ||b||_*^2 in the dual norm, for b ~ N(0, I): of the part of b that moves F (`directions`)."""
        return float(directions(problem))

    def bregman(self, problem: Problem, distance: float) -> float:  # noqa: ARG002
        """Return the largest B_w(u, start) over u in C with ||u - start||_2 <= distance."""
        return distance**2 / 2

    def mirror(self, problem: Problem, z: Vector, g: Vector, step: float) -> Vector:
        """Return argmin over u in C of B_w(u, z) + step (<g, u> + r(u))."""
        return problem.prox(z - step * g, step)

    def descend(self, problem: Problem, x: Vector, g: Vector, step: float, ahead: Vector) -> Vector:  # noqa: ARG002
        """Return argmin over u in C of ||u - x||_2^2 / 2 + step (<g, u> + r(u)), no higher than at `ahead`."""
        return problem.prox(x - step * g, step)


def directions(problem: Problem) -> int:
    """Return the number of directions in which noise moves F.

    It is `size`, or n k outputs if that is less and neither C nor r mixes directions.

    F depends only on the part of w in the span of its rows. With C = R^d and r = 0, every method here keeps this part
    separate (docs/proofs/dp_gd.md).
    """
    apart = isinstance(problem.domain, Free) and isinstance(problem.regularizer, NoRegularizer)
    return min(problem.size, problem.slots * problem.outputs) if apart else problem.size
