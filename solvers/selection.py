"""Method "auto": which method for which problem, from public facts."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from accounting.privacy import Privacy
from solvers.catalog import Method
from solvers.methods import DpAccMd, DpGd, DpSvrg, NoisyMirrorDescent
from solvers.methods.checks import check_loss
from solvers.perturbation import OutputPerturbation
from solvers.potentials import HalfSquaredLp
from solvers.problem import Problem

_MANY_GRADIENTS = 1e10  # about where a run over all rows takes hours


@dataclass(frozen=True, slots=True)
class Auto:
    """dp_gd; dp_svrg where dp_gd would take over 1e10 gradient evaluations; dp_acc_md on an l1 ball with d above n, if
    r has no quadratic part; noisy_mirror_descent where the loss is not smooth; output_perturbation at delta = 0.

    The tables of Wang, Ye and Xu 2017 would take dp_svrg for a strongly convex objective, dp_svrg_pp for any other and
    dp_acc_md for d above n. Measured with valid noise (docs/proofs/forecast.md), the first two save gradients and not
    risk, so dp_svrg is kept for runs where that matters; dp_acc_md has the lower risk where its potential is that of
    the l1 ball (docs/benchmarks/wide.md), and about dp_gd's with the half squared l2 norm.
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
            if the loss is not smooth and methods that sample may not be chosen.
        """
        if not problem.is_smooth and problem.is_convex and sampling and not privacy.is_pure:
            return NoisyMirrorDescent(), f"{problem.loss.name} is not smooth: {_ROUGH}"
        check_loss("auto", problem)
        if privacy.is_pure:
            return OutputPerturbation(), "delta = 0: Laplace noise, on the minimizer of a strongly convex problem"
        if not problem.is_convex:
            return DpGd(), "the loss is not convex: plain full gradient steps are what still descends"
        kind = f"smooth, {'strongly convex' if problem.mu > 0 else 'not strongly convex'}"
        facts = f"{kind}, n = {problem.n}, d = {problem.size}"
        evaluations = DpGd().resolve(problem, privacy).gradient_evaluations(problem)
        if sampling and evaluations > _MANY_GRADIENTS:
            return DpSvrg(), f"{facts}: dp_gd would take {evaluations:.2g} gradient evaluations; {_FEWER}"
        if problem.size > problem.n and HalfSquaredLp().refusal(problem) is None:
            return DpAccMd(), f"{facts}, an l1 ball: {_SPARSE}"
        return DpGd(), f"{facts}: {_WIDE if problem.size > problem.n else _USUAL}"


_ROUGH = "half passes over secret slots need the least noise of the methods that take any convex loss"
_FEWER = "dp_svrg takes several times fewer at about the same measured risk"
_WIDE = (
    "full gradients need the least noise; the published rates would take dp_acc_md for d above n: ask for it by name"
)
_SPARSE = "the noise of dp_acc_md with potential half_squared_lp counts by about ln d there, where dp_gd's counts by d"
_USUAL = "full gradients need the least noise; the variance-reduced methods save gradients, not risk"
