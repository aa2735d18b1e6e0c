"""docs/partitions.md lists the methods that need one machine, as the code decides."""

import re
from pathlib import Path
from typing import get_args

from accounting import Privacy
from solvers import Problem
from solvers.columns import Columns
from solvers.domains import LinfBall
from solvers.elsewhere import needs_one_machine
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Squared
from solvers.methods import Method
from solvers.regularizers import L2
from solvers.statistics import AnyStatistic

PAGE = Path(__file__).parents[2] / "docs/partitions.md"
LAID_OUT = Columns((1,))
PROBLEMS = [Problem(loss, L2(0.05), n=10**6, d=2, row_norm=1.0) for loss in (Logistic(), Squared())]
PROBLEMS += [Problem(Squared(), L2(0.05), LinfBall(1.0), n=10**4, d=1, row_norm=1.0)]
PROBLEMS += [Problem(Logistic(), n=10**6, d=2, row_norm=LAID_OUT.row_norm, columns=LAID_OUT)]


def decided(method: Method) -> str | None:
    """Why the method's default run needs one machine."""
    for problem in PROBLEMS:
        for privacy in (Privacy(1.0, 1e-8), Privacy(1.0)):
            try:
                return needs_one_machine(method.resolve(problem, privacy), problem)
            except Unsuitable:
                continue
    raise AssertionError(method)


def test_the_page_lists_each_method_that_needs_one_machine() -> None:
    lines = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    reasons = {kind().name: decided(kind()) for kind in get_args(Method)}
    assert lines == sorted((name, reason) for name, reason in reasons.items() if reason is not None)


def test_no_statistic_needs_one_machine() -> None:
    assert {needs_one_machine(kind(), PROBLEMS[-1]) for kind in get_args(AnyStatistic)} == {None}
