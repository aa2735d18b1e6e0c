"""The published columns of a profile, computed from its answers: post-processing, with intervals."""

import numpy as np
from numpy.typing import NDArray

from app.jobs.intervals import Rows, edges_of, interval, mean_of, quantile, scale_of, stds_of
from app.sources.design import Table
from app.sources.spec import JobSpec
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.models import ReleasedMoments
from purse.wire.profiles import ColumnProfile
from solvers.statistics import Profile

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def columns(spec: JobSpec, answers: NDArray[np.float64]) -> list[ColumnProfile]:
    """Return the profile of every declared column, from the flat answers of `Profile.run`."""
    method, table, problem = spec.method, spec.design, spec.problem
    assert isinstance(method, Profile)
    assert isinstance(table, Table)
    moments, counts, share = method.unpack(problem, answers)
    stds = stds_of(method, problem, spec.release_plan.plan)
    rows = Rows(problem.n * share, problem.n * stds["means"] if problem.unit.is_person else 0.0)
    profiles, numbers, layout = [], iter(counts), problem.columns
    places = problem.unit.slots  # a person's rows count 1/k each in the answers, and 1 each in the profile
    assert layout is not None
    for column, start, width in zip(table.features, layout.starts.tolist(), layout.widths, strict=True):
        own = moments.at(range(start, start + width))
        released = ReleasedMoments(center=list(own.center), variances=list(own.variances), noise=list(own.noise))
        if isinstance(column, CategoryColumn):
            shares, std = places * rows.n * np.array(own.center), places * problem.n * stds["means"]
            profiles.append(
                ColumnProfile(column=column, counts=shares.tolist(), counts_noise_std=float(std), moments=released)
            )
        else:
            stds["mean"] = problem.n * stds["means"] / rows.n
            profiles.append(_number(column, released, next(numbers), stds, rows, places))
    return profiles


def _number(
    column: NumberColumn,
    released: ReleasedMoments,
    counts: NDArray[np.float64],
    stds: dict[str, float],
    rows: Rows,
    places: int,
) -> ColumnProfile:
    edges = edges_of(column, len(counts))
    (m,), (v,), (noise,) = released.center, released.variances, released.noise
    roots = np.sqrt(np.maximum(rows.around(v, noise), 0.0))
    return ColumnProfile(
        column=column,
        counts=(places * counts).tolist(),
        counts_noise_std=places * stds["histograms"],
        edges=edges.tolist(),
        mean=mean_of(column, rows.around(m, stds["mean"])),
        std=interval(scale_of(column)[1] * roots),
        quantiles=[quantile(share, counts, edges, stds["histograms"], rows) for share in _SHARES],
        moments=released,
    )
