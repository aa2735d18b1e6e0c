"""The widths of the intervals that a job will publish, computed from public facts before it is charged."""

from app.results import evaluations, profiles, statistics
from app.results.intervals import Widths
from app.sources.spec import JobSpec
from solvers.statistics import AnyStatistic, Evaluation, Profile


def widths(spec: JobSpec) -> Widths | None:
    """Return the width of each published interval of a statistic or an evaluation; None for a model."""
    if isinstance(spec.method, Profile):
        return profiles.widths(spec)
    if isinstance(spec.method, Evaluation):
        return evaluations.widths(spec)
    return statistics.widths(spec) if isinstance(spec.method, AnyStatistic) else None
