"""The product's audit with a seeded source."""

from accounting.noise import Noise
from accounting.plan import Plan
from solvers.audit.attack import Row, TestStatistic
from solvers.audit.attack import scores as attack
from solvers.audit.bounds import Scores
from solvers.methods import Run
from solvers.problem import Problem
from tests.support.seeded import SeededBits


def source(seed: int, which: int) -> Noise:
    """The randomness of one dataset's runs."""
    return Noise(SeededBits(2 * seed + which))


def seeded_scores(
    method: Run,
    problem: Problem,
    plan: Plan,
    one: Row,
    two: Row,
    runs: int,
    seed: int,
    statistic: TestStatistic | None = None,
    position: int = 0,
    others: Row | None = None,
) -> tuple[Scores, Scores]:
    """Scores of `runs` runs with the first row, and of as many with the second; the same at every call."""
    how = runs, lambda which: source(seed, which), statistic, position
    return attack(method, problem, plan, (one, two), *how, others=others)
