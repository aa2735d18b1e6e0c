"""Findings of the audit of a case: what attacks on its plan, and on half of its noise, show about epsilon."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from accounting.calibration import calibrate, certify
from accounting.noise import Noise
from accounting.plan import Plan
from accounting.privacy import REPLACE_ONE, Privacy, Relation
from solvers.audit.attack import Attack, halved
from solvers.audit.bounds import DELTAS, Scores, epsilon_lower_bound
from solvers.audit.cases import CASES, Case, ExactCase
from solvers.audit.exact import law
from solvers.solve import plan as planned_run

Attempt = Callable[[Plan, int, Callable[[int], Noise]], tuple[Scores, Scores]]


@dataclass(frozen=True, slots=True)
class Finding:
    """At one delta: the certified epsilon, a lower bound on the true one, and the lower bound with half the noise."""

    delta: float
    promise: float
    lower_bound: float
    half_noise: float


def audit(
    name: str,
    runs: int,
    noise: Callable[[int], Noise] = lambda _: Noise(),
    privacy: Privacy | None = None,
    relation: Relation = REPLACE_ONE,
) -> list[Finding]:
    """Attack a method as planned and with half its noise, and return a finding for each delta.

    Parameters
    ----------
    runs : on either dataset, for each of the two attacks
    privacy : the guarantee; that of the case by default
    relation : of the neighbors

    Raises
    ------
    KeyError
        if no case has this name.
    """
    case = CASES[name]
    if isinstance(case, ExactCase):
        return [_exactly(case, relation)]
    plan, attack = attacked(case, privacy or case.privacy, relation)
    planned, with_half_noise = (attack(mutant, runs, noise) for mutant in (plan, halved(plan)))
    return [
        Finding(
            delta,
            promise=certify(plan, delta)[0],
            lower_bound=epsilon_lower_bound(*planned, delta),
            half_noise=epsilon_lower_bound(*with_half_noise, delta),
        )
        for delta in DELTAS
    ]


def attacked(case: Case, privacy: Privacy, relation: Relation = REPLACE_ONE) -> tuple[Plan, Attempt]:
    """Return the plan of a case for a guarantee, and the attack on runs of this plan or of a mutant's."""
    planned = planned_run(case.method, replace(case.problem, relation=relation), privacy, preparation=case.preparation)
    attack = Attack(
        planned.method,
        planned.problem,
        case.pair(relation),
        statistic=case.statistic,
        position=case.position,
        preparation=planned.preparation,
        other_rows=case.other_rows,
    )
    return planned.release.plan, lambda plan, runs, noise: attack.scores(plan, runs * case.effort, noise)


def _exactly(case: ExactCase, relation: Relation) -> Finding:
    """Return the largest |ln(P(j | D) / P(j | D'))| over all choices j, as planned and with half the noise."""
    problem, is_null = replace(case.problem, relation=relation), relation != REPLACE_ONE
    method = case.method.resolve(problem, case.privacy)
    plan = calibrate(method.queries(problem), case.privacy, relation).plan
    epsilons = []
    for mutant in (plan, halved(plan)):
        first_law = law(method, problem, mutant, case.first_targets)
        second_law = law(method, problem, mutant, case.second_targets, is_last_null=is_null)
        epsilons.append(max(abs(math.log(p / q)) for p, q in zip(first_law, second_law, strict=True)))
    return Finding(0.0, certify(plan, 0.0)[0], epsilons[0], epsilons[1])
