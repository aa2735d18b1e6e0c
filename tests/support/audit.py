"""The product's audit with a seeded source, and a test that ends as soon as it knows."""

from collections.abc import Callable
from functools import cache

import numpy as np

from accounting import Privacy
from accounting.calibration import certify
from accounting.noise import Noise
from accounting.plan import Plan
from solvers import plan as plan_of
from solvers.audit import CASES, attack
from solvers.audit.bounds import ALARM, DELTAS, Scores, epsilon_lower_bound
from solvers.audit.cases import Case
from solvers.audit.neighbors import Row
from solvers.methods import Run
from solvers.problem import Problem
from tests.support.seeded import SeededBits

Attack = Callable[[int], tuple[Scores, Scores]]  # the scores of so many further runs of either dataset
Beyond = Callable[[Scores, Scores, float], float]  # how far a bound with this alarm lies beyond a promise
SHARES = 0.3, 0.4, 0.5, 0.75, 1.0  # of the runs, after which is looked
SCREEN, LOOK = 0.1, ALARM / len(SHARES)


def violates(attack: Attack, runs: int, beyond: Beyond) -> bool:
    """Return whether an audit shows a violation within so many runs of each dataset. The audit stops early.

    The first share is screened with an alarm of 1/10: where it shows nothing, the promise is kept. It and more are
    looked at with an alarm of ALARM / 5 each, so that no honest mechanism is accused with a chance above ALARM; a
    mutant is missed where the screen or the last look misses it, as often as `make power` says.
    """
    values, runs_done = (np.empty(0), np.empty(0)), 0
    for share in SHARES:
        new_values = attack(round(share * runs) - runs_done)
        values, runs_done = (
            (np.append(values[0], new_values[0]), np.append(values[1], new_values[1])),
            round(share * runs),
        )
        if share == SHARES[0] and beyond(*values, SCREEN) <= 0:
            return False
        if beyond(*values, LOOK) > 0:
            return True
    return False


def beyond(plan: Plan) -> Beyond:
    """Return by how much measured epsilons exceed the certified ones of a plan, at the worst delta."""
    promised = {delta: certify(plan, delta)[0] for delta in DELTAS}
    return lambda first, second, alarm: max(
        epsilon_lower_bound(first, second, d, alarm) - e for d, e in promised.items()
    )


def source(seed: int, which: int) -> Noise:
    """Return the randomness of one dataset's runs."""
    return Noise(SeededBits(2 * seed + which))


def sources(seed: int) -> Callable[[int], Noise]:
    """Return the randomness of both datasets' runs, which continues between calls."""
    return cache(lambda which: source(seed, which))


def seeded_attack(
    method: Run,
    problem: Problem,
    plan: Plan,
    first: Row,
    second: Row,
    seed: int,
    statistic: attack.TestStatistic | None = None,
    position: int = 0,
    other_rows: Row | None = None,
) -> Attack:
    """Return an attack that runs with the first row and with the second alternately."""
    noise = sources(seed)
    attempt = attack.Attack(method, problem, (first, second), statistic, position, other_rows=other_rows)
    return lambda runs: attempt.scores(plan, runs, noise)


def case_attack(name: str, seed: int, privacy: Privacy | None = None) -> tuple[Plan, Attack]:
    """Return the plan of a case of `purse audit`, for its own guarantee or another one, and the attack on it."""
    case = CASES[name]
    assert isinstance(case, Case)
    quote = plan_of(case.method, case.problem, privacy or case.privacy)
    planned = quote.release.plan
    return planned, seeded_attack(quote.method, quote.problem, planned, *case.pair(), seed, other_rows=case.other_rows)


def seeded_scores(
    method: Run, problem: Problem, plan: Plan, first: Row, second: Row, runs: int, seed: int
) -> tuple[Scores, Scores]:
    """Return the scores of `runs` runs with each row, the same at every call."""
    return seeded_attack(method, problem, plan, first, second, seed)(runs)
