"""The widths of the intervals that a job will publish, computed from public facts before it is charged."""

from app.results import evaluations, profiles, statistics
from app.results.intervals import Widths
from app.sources.spec import JobSpec
from purse.wire.profiles import DatasetProfile
from solvers.statistics import AnyStatistic, Evaluation, Profile


def widths(spec: JobSpec, profile: DatasetProfile | None = None) -> Widths | None:
    """Return the width of each published interval of a statistic or an evaluation, or None for a model.

    Parameters
    ----------
    profile : the latest released profile of the dataset
    """
    if isinstance(spec.method, Profile):
        return profiles.widths(spec)
    if isinstance(spec.method, Evaluation):
        return evaluations.widths(spec)
    by_name = {} if profile is None else {each.column.name: each for each in profile.columns}
    return statistics.widths(spec, by_name) if isinstance(spec.method, AnyStatistic) else None
