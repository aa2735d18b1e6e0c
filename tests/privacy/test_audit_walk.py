"""Mutants of the numbers that the compiled walk is handed, which the audit must catch.

`solvers.audit` scores every point of a walk; `test_audit_cases.py` holds its cases to their promise, `dp_svrg_walk` far
from the anchor and `dp_svrg_walk_centred` near it, and catches half the noise. Here the walk itself is wrong.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from accounting.mechanisms import PoissonGaussian
from accounting.plan import Plan
from solvers.audit import attack
from solvers.audit.gradients import GradientAttacker
from solvers.audit.neighbors import Row
from solvers.data_access import walk
from solvers.oracles import Sampled
from solvers.problem import Problem
from tests.support.audit import beyond, case_attack, violates
from tests.support.mutants import mutated

RUNS = 1900


def is_caught(name: str) -> bool:
    """Return whether the audit's lower bound exceeds the guarantee."""
    plan, attack = case_attack(name, 3)
    return violates(attack, RUNS, beyond(plan))


def test_the_audit_attacks_whole_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit requests no single answer of these cases."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a single answer was requested")

    for name in ("sampled_change", "sampled_gradient", "centred_change"):
        monkeypatch.setattr(GradientAttacker, name, refuse)
    for name in ("dp_svrg_walk", "dp_svrg_walk_centred"):
        case_attack(name, 3)[1](2)


def half_bound(factors: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    return lambda problem: (factors(problem)[0] / 2, factors(problem)[1] / 2)


@pytest.mark.parametrize(
    ("name", "factors"),
    [("dp_svrg_walk", "sampled_factors"), ("dp_svrg_walk_centred", "centred_factors")],
    ids=["gradients", "centred changes"],
)
def test_mutant_half_the_bound_in_the_walk_is_caught(name: str, factors: str) -> None:
    """The attacker knows the mutant: sampled answers have half the planned noise."""

    def knowing(oracle: Sampled, problem: Problem, plan: Plan, *rows: Row) -> GradientAttacker:
        queries = (
            replace(q, noise_multiplier=q.noise_multiplier / 2) if isinstance(q.mechanism, PoissonGaussian) else q
            for q in plan.queries
        )
        return GradientAttacker(oracle, problem, Plan(tuple(queries), plan.relation), *rows)

    with (
        mutated(walk, factors, half_bound(getattr(walk, factors))),
        mutated(attack, "GradientAttacker", knowing),
    ):
        assert is_caught(name)
