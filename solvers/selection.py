"""Method "auto": which method for which problem, from public facts."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from solvers.methods import DpGd, Method
from solvers.methods.checks import check_loss
from solvers.problem import Problem


@dataclass(frozen=True, slots=True)
class Auto:
    """The method that suits the problem; dp_gd until there is more to choose from."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["auto"] = "auto"

    def choose(self, problem: Problem) -> tuple[Method, str]:
        """The method and the reason.

        Raises
        ------
        Unsuitable
            if the loss is not smooth: no method here minimizes such a one.
        """
        check_loss("auto", problem)
        if not problem.is_convex:
            return DpGd(), "the loss is not convex: plain full gradient steps are what still descends"
        return DpGd(), "full gradients need the least noise for a given number of private steps"
