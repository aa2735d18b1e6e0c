"""Runs that need all rows on one machine, and why, from public facts. All other runs use sums over partitions."""

from accounting.mechanisms import PoissonGaussian, RandomAllocation, Resampled, SvrgStep
from accounting.noise.draws import is_sparse_draw
from solvers.methods import Run
from solvers.methods.run import ChoosingRun, DataRun
from solvers.problem import Problem
from solvers.statistics import AnyCounting

MOST_DRAWN = 2**26
"""Largest expected number of records in a batch, because the coordinator lists them."""


def needs_one_machine(run: Run | AnyCounting, problem: Problem) -> str | None:
    """Return why the run needs one machine, or None if sums over partitions are enough."""
    if isinstance(run, ChoosingRun):
        return "its runs are scored on one machine"
    if isinstance(run, DataRun) and run.in_order:
        return "it takes one step for each record, one after the other"
    for query in run.queries(problem):
        mechanism = query.mechanism
        if isinstance(mechanism, RandomAllocation):
            return "its secret slots are a list of all rows"
        if isinstance(mechanism, Resampled):
            return "it draws a sample of all rows with replacement"
        if isinstance(mechanism, SvrgStep) and not is_sparse_draw(problem.n, mechanism.batch):
            return "its batches are drawn from a list of all rows. Use batches of less than an eighth of the rows"
        if isinstance(mechanism, PoissonGaussian) and mechanism.rate * problem.n > MOST_DRAWN:
            return f"its batches hold more than {MOST_DRAWN} rows"
    return None
