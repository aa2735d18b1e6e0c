"""`make power`: how often an audit's case misses that the noise is half of what it promises.

By how many standard deviations the bound of the screen, and that of the last look, lie above the promise, when the
scores of three times as many runs as the test makes are drawn again; and the chance that either does not.
"""

import sys

import numpy as np
from scipy import stats

from accounting import Privacy
from accounting.privacy import REPLACE_ONE, Relation
from solvers.audit import CASES
from solvers.audit.attack import halved
from solvers.audit.cases import Case
from solvers.audit.findings import attacked
from tests.support.audit import LOOK, SCREEN, SHARES, beyond, sources
from tests.support.audit_cases import NULL, SHARED, TRIED

POOL, DRAWS = 3, 100


def power(name: str, relation: Relation) -> tuple[float, float]:
    """Return the standard deviations of the screen, and of the last look."""
    case, (epsilon, runs), rng = CASES[name], TRIED[name], np.random.default_rng(1)
    assert isinstance(case, Case)
    plan, attack = attacked(case, Privacy(epsilon, case.privacy.delta), relation)
    pools, judged = attack(halved(plan), POOL * runs, sources(5)), beyond(plan)
    deviations = []
    for share, alarm in ((SHARES[0], SCREEN), (SHARES[-1], LOOK)):
        size = round(share * runs) * case.effort
        drawn = [judged(rng.choice(pools[0], size), rng.choice(pools[1], size), alarm) for _ in range(DRAWS)]
        deviations.append(float(np.mean(drawn) / np.std(drawn)))
    return deviations[0], deviations[1]


def main() -> None:
    """A line for each case that is tried, or for those named."""
    names = sys.argv[1:] or sorted(name for name in set(CASES) - set(SHARED) if isinstance(CASES[name], Case))
    tried = [(name, REPLACE_ONE) for name in names] + [
        (name, "zero_out") for name in NULL if name in names or not sys.argv[1:]
    ]
    for name, relation in tried:
        screen, last = power(name, relation)
        missed = stats.norm.sf(screen) + stats.norm.sf(last)
        print(f"{name:28} {relation:12} screen {screen:5.1f}  last look {last:5.1f}  missed {missed:.1e}", flush=True)


if __name__ == "__main__":
    main()
