"""The rule by which the default filter was chosen: what it admits beside what orders alone do."""

import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from benchmarks.admitted import DELTA, KINDS, MIXES, admitted, filters

NAMES = list(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "epsilon"), [(1.0, 0.2), (1.0, 0.5), (3.0, 0.2), (3.0, 0.5), (3.0, 1.0)])
def test_the_new_filter_admits_at_least_96_percent_as_many_jobs_and_more_gaussian_ones(
    budget: float, epsilon: float
) -> None:
    rules = filters(budget)
    plans = [calibrate(queries, Privacy(epsilon, DELTA)).plan for queries in KINDS.values()]
    old, new = ([rules[head].cost(plan) for plan in plans] for head in ("rdp", "gdp_rdp"))
    for name, members in ({name: (i,) for i, name in enumerate(NAMES)} | MIXES).items():
        old_count, new_count = (
            admitted(rules[head], tuple(costs[i] for i in members)) for head, costs in (("rdp", old), ("gdp_rdp", new))
        )
        assert new_count > 0.96 * old_count, name
        if name.startswith("Gaussian, "):
            assert new_count > 1.13 * old_count
        if name == "pure, 100 Laplace answers":
            assert new_count > old_count
