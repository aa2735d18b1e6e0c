"""Method "auto": which method for which problem, from public facts."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.privacy import Privacy
from solvers.catalog import Method
from solvers.methods import DpGd, DpSvrg
from solvers.methods.checks import check_loss
from solvers.problem import Problem

_MANY_GRADIENTS = 1e10  # about where a run over all rows takes hours


@dataclass(frozen=True, slots=True)
class Auto:
    """dp_gd, but dp_svrg where dp_gd would take more than 1e10 gradient evaluations.

    The tables of Wang, Ye and Xu 2017 would take dp_svrg for a strongly convex objective, dp_svrg_pp for any other and
    dp_acc_md for d above n. Measured with valid noise (docs/proofs/forecast.md), the first two save gradients and not
    risk, so dp_svrg is kept for runs where that matters; with the half squared l2 norm dp_acc_md is no better than
    dp_gd.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["auto"] = "auto"

    def choose(self, problem: Problem, privacy: Privacy, *, sampling: bool = True) -> tuple[Method, str]:
        """The method and the reason.

        Parameters
        ----------
        problem, privacy : public facts
        sampling : whether methods that sample batches may be chosen; a dataset's filter may have no currency for them

        Raises
        ------
        Unsuitable
            if delta is 0, or the loss is not smooth: no method here minimizes such a one.
        """
        check_loss("auto", problem)
        if not problem.is_convex:
            return DpGd(), "the loss is not convex: plain full gradient steps are what still descends"
        kind = f"smooth, {'strongly convex' if problem.mu > 0 else 'not strongly convex'}"
        facts = f"{kind}, n = {problem.n}, d = {problem.d}"
        evaluations = DpGd().resolve(problem, privacy).gradient_evaluations(problem)
        if sampling and evaluations > _MANY_GRADIENTS:
            return DpSvrg(), f"{facts}: dp_gd would take {evaluations:.2g} gradient evaluations; {_FEWER}"
        return DpGd(), f"{facts}: {_WIDE if problem.d > problem.n else _USUAL}"


_FEWER = "dp_svrg takes several times fewer at about the same measured risk"
_WIDE = (
    "full gradients need the least noise; the published rates would take dp_acc_md for d above n: ask for it by name"
)
_USUAL = "full gradients need the least noise; the variance-reduced methods save gradients, not risk"
