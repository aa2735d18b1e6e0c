"""Which runs can do with sums over partitions, and which need all rows on one machine: from public facts."""

from accounting.mechanisms import PoissonGaussian, RandomAllocation, Resampled, SvrgStep
from accounting.noise.draws import is_sparse_draw
from solvers.methods import Run
from solvers.methods.run import ChoosingRun, DataRun
from solvers.problem import Problem
from solvers.statistics import AnyCounting

MOST_DRAWN = 2**26
"""The most records that a batch is expected to hold: the coordinator lists them."""


def needs_one_machine(run: Run | AnyCounting, problem: Problem) -> str | None:
    """Why it does; None if sums over partitions are all that it asks for."""
    if isinstance(run, ChoosingRun):
        return "its runs are scored on one machine"
    if isinstance(run, DataRun) and run.in_order:
        return "it takes a step a record, one after the other"
    for query in run.queries(problem):
        mechanism = query.mechanism
        if isinstance(mechanism, RandomAllocation):
            return "its secret slots are a list of all rows"
        if isinstance(mechanism, Resampled):
            return "it draws as many rows as there are, with replacement"
        if isinstance(mechanism, SvrgStep) and not is_sparse_draw(problem.n, mechanism.batch):
            return "its batches are drawn from a list of all rows: take fewer than an eighth of them"
        if isinstance(mechanism, PoissonGaussian) and mechanism.rate * problem.n > MOST_DRAWN:
            return f"its batches hold more than {MOST_DRAWN} rows"
    return None
