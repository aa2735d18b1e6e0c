"""Runs that need all rows on one machine, and why, from public facts. All other runs use sums over partitions."""

from solvers.methods import Run
from solvers.methods.run import ChoosingRun, DataRun
from solvers.problem import Problem
from solvers.statistics import AnyCounting


def needs_one_machine(run: Run | AnyCounting, problem: Problem) -> str | None:
    """Return why the run needs one machine, or None if sums over partitions are enough."""
    if isinstance(run, ChoosingRun):
        return "its runs are scored on one machine"
    if isinstance(run, DataRun) and run.in_order:
        return "it takes one step for each record, one after the other"
    reasons = (query.mechanism.needs_all_rows(problem.n) for query in run.queries(problem))
    return next(filter(None, reasons), None)
