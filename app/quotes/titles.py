"""Names of jobs, for lists and headings."""

from collections.abc import Sequence

from app.sources.design import Design, StatisticDesign
from app.wire import JobRequest, Requested, StatisticRequest, TuningRequest
from purse.wire.statistics import RESULTS

_MOST_COLUMNS = 3  # that a title names


def title(request: Requested, design: Design | StatisticDesign) -> str:
    """Return the title of a job, such as `Model of income` or `Counts of age and sex`."""
    if isinstance(request, StatisticRequest):
        columns = request.by or request.columns
        result = RESULTS.get(request.method.name)
        return f"{result.heading} {_listed(columns)}" if result else request.method.name.capitalize()
    assert isinstance(design, Design)
    target = design.target.name
    if isinstance(request, TuningRequest):
        return f"Best model of {target}"
    if isinstance(request, JobRequest):
        return f"{'Regression table' if request.inference else 'Model'} of {target}"
    return f"Evaluation of the model of {target}"


def _listed(names: Sequence[str] | None) -> str:
    """Return the names of columns as words; only their number if there are many."""
    if names is None:
        return "all columns"
    if len(names) > _MOST_COLUMNS:
        return f"{len(names)} columns"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
