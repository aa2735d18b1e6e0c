"""Pictures of docs/concepts.md that are computed with the product's own arithmetic; request.svg is drawn by hand.

python -m tests.support.pictures     # writes docs/pictures/*.svg

The files are small, and equal figures give equal bytes. Grey text is readable on light and on dark pages.
"""

import math
from pathlib import Path

from accounting.calibration import calibrate
from accounting.filter import Filter
from accounting.mechanisms import Gaussian
from accounting.plan import Query, ReleasePlan
from accounting.privacy import Privacy
from solvers import count_bounds
from tests.support.measured import drawing, line, text

FOLDER = Path(__file__).parents[2] / "docs/pictures"
DELTA = 1e-6
BUDGET, JOB = Privacy(2.0, DELTA), Privacy(0.5, DELTA)  # of the tutorial
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#888888"
_WIDTH, _HEIGHT, _MARGIN, _RIGHT, _TOP, _BOTTOM = 620, 270, 60, 600, 20, 225
_WIDE = 1.959964  # half-width of a 95 % interval, in stds
_MAX_ROWS = 8  # of a person, in the picture of the noise


def release(privacy: Privacy) -> ReleasePlan:
    """Return the plan of one Gaussian answer."""
    return calibrate((Query("cells", 1, Gaussian()),), privacy)


def within(epsilon: float, max_rows: int = 1) -> float:
    """Return the distance within which 95 of 100 noisy counts are of the exact one."""
    (query,) = release(Privacy(epsilon, DELTA)).plan.queries
    return _WIDE * max_rows * query.mechanism.std(query.noise_multiplier, count_bounds.cells(), 1)


def spending() -> list[float]:
    """Return what 1, 2, ... jobs of the tutorial guarantee together, as long as they fit the budget."""
    budget, spent = Filter.open("gdp_rdp", BUDGET), []
    cost = budget.cost(release(JOB).plan)
    total = budget.zero_cost
    while budget.admits(total, cost):
        total = tuple(a + b for a, b in zip(total, cost, strict=True))
        spent.append(budget.spent_epsilon(total))
    return spent


def noise() -> str:
    """Draw the noise of a count against epsilon, for rows and for persons; both axes are logarithmic."""
    epsilons = [0.01 * 10 ** (k / 10) for k in range(31)]

    def at(epsilon: float, value: float) -> tuple[float, float]:
        across, up = math.log10(epsilon / 0.01) / 3, math.log10(value) / 4
        return _MARGIN + across * (_RIGHT - _MARGIN), _BOTTOM - up * (_BOTTOM - _TOP)

    parts = []
    for power in range(5):
        y = at(1.0, 10.0**power)[1]
        parts += [line([(_MARGIN, y), (_RIGHT, y)], _GREY, 0.4), text(_MARGIN - 42, y + 4, f"{10**power:,}")]
    parts += [text(at(epsilon, 1)[0] - 8, _BOTTOM + 16, f"{epsilon:g}") for epsilon in (0.01, 0.1, 1.0, 10.0)]
    for max_rows, color, name in (
        (1, _BLUE, "one row"),
        (_MAX_ROWS, _ORANGE, f"one person with up to {_MAX_ROWS} rows"),
    ):
        parts.append(line([at(epsilon, within(epsilon, max_rows)) for epsilon in epsilons], color, 2))
        x, y = at(0.1, within(0.1, max_rows))
        parts.append(text(x + 16, y - 4, f"protects {name}", color))
    x, y = at(0.05, within(0.05))
    parts += [line([(x, y), (x, _BOTTOM)], _GREY, 1, "3 3"), text(x + 6, _BOTTOM - 8, f"{within(0.05):.0f} at 0.05")]
    parts.append(
        text(_MARGIN, _BOTTOM + 36, "epsilon (below) and the distance within which 95 of 100 noisy counts lie (left)")
    )
    return drawing(_WIDTH, _HEIGHT, parts)


def budget() -> str:
    """Draw what equal jobs of the tutorial guarantee together, and the sum of their epsilons."""
    spent = spending()
    highest, steps = BUDGET.epsilon * 1.5, len(spent) + 1

    def at(jobs: float, epsilon: float) -> tuple[float, float]:
        return _MARGIN + jobs / steps * (_RIGHT - _MARGIN), _BOTTOM - epsilon / highest * (_BOTTOM - _TOP)

    parts = []
    for epsilon in (0.0, 1.0, 2.0, 3.0):
        y = at(0, epsilon)[1]
        parts += [line([(_MARGIN, y), (_RIGHT, y)], _GREY, 0.4), text(_MARGIN - 24, y + 4, f"{epsilon:g}")]
    parts += [text(at(jobs, 0)[0] - 4, _BOTTOM + 16, str(jobs)) for jobs in range(1, steps + 1)]
    limit = at(0, BUDGET.epsilon)[1]
    parts += [line([(_MARGIN, limit), (_RIGHT, limit)], _GREEN, 2), text(_MARGIN + 4, limit - 6, "the budget", _GREEN)]
    sums = [(jobs, jobs * JOB.epsilon) for jobs in range(int(highest / JOB.epsilon) + 1)]
    parts += [
        line([at(*each) for each in sums], _GREY, 1.5, "6 3"),
        text(*at(6.2, 2.75), "sum of the epsilons"),
    ]
    curve = [(0, 0.0), *enumerate(spent, start=1)]
    parts += [
        line([at(*each) for each in curve], _BLUE, 2),
        text(*at(6.2, 1.1), "epsilon of all jobs together", _BLUE),
    ]
    parts.append(
        text(_MARGIN, _BOTTOM + 36, f"jobs of epsilon {JOB.epsilon:g} (below) and epsilon at delta 1e-6 (left)")
    )
    return drawing(_WIDTH, _HEIGHT, parts)


PICTURES = {"noise": noise, "budget": budget}


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
