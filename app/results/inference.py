"""The regression table of a run, computed from its answers: post-processing."""

import numpy as np

from app.sources.design import Design
from app.sources.spec import JobSpec
from purse.solved_tables import units
from purse.wire.columns import Column, NumberColumn
from solvers.inference.coordinates import Stds
from solvers.inference.regression_table import RegressionTableRun
from solvers.inference.table import SolvedTable, Units, table


def result(spec: JobSpec, run: RegressionTableRun, answers: tuple[float, ...]) -> SolvedTable:
    """Return the table of a run, in the units of the file; `ValueError` if the answers have another length."""
    if len(answers) != run.size(spec.problem):
        raise ValueError("the output is of another length")
    assert isinstance(spec.design, Design)
    plan = spec.release_plan.plan
    stds = Stds(spec.problem, lambda query: plan.query(query).noise_multiplier)
    own = Units(**units(spec.design.features, number_target(spec.design), run.largest_count is not None))
    return table(spec.problem, run, np.array(answers), stds, own)


def number_target(design: Design) -> Column | None:
    """Return the target if it is a number."""
    return design.target if isinstance(design.target, NumberColumn) else None
