"""In the solvers, a statistic is one file and one line of the union; a copy of the packages shows it.

The service also needs a document for its answers: `app/results/statistics.py`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[3]

STATISTIC = '''
"""Spread of all numbers together."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from accounting.plan import Query
from solvers.methods.run import Bounds
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector
from solvers.statistics.statistic import Statistic, categories_refused


@dataclass(frozen=True, slots=True)
class Spread(Statistic):
    """Noisy mean squared distance of the numbers from their means."""

    name: Literal["spread"] = "spread"

    def refusal(self, problem: Problem) -> str | None:
        return categories_refused(problem)

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        return moments.queries(problem, 1.0, 1.0, 1.0)[:2]

    def bounds(self, problem: Problem) -> Bounds:
        bounds = moments.bounds(problem)
        return {"means": bounds["means"], "spread": bounds["spread"]}

    def size(self, problem: Problem) -> int:
        return 1

    def run(self, oracle: Counting, problem: Problem) -> Vector:
        center = np.clip(oracle.moments.means("means"), -1, 1)
        return np.array([oracle.moments.spread("spread", center)])
'''

TRIAL = """
import json
import numpy as np
from accounting import Privacy
from app.wire import StatisticRequest
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.losses import Squared
from solvers.solve import run

body = {"dataset": "ds_0", "columns": ["a", "b"], "privacy": {"epsilon": 1.0}, "method": {"name": "spread"}}
method = StatisticRequest.model_validate_json(json.dumps(body)).method
columns = Columns((1, 1))
problem = Problem(Squared(), n=2000, d=3, row_norm=columns.row_norm, columns=columns)
quote = plan(method, problem, Privacy(50.0, 1e-6))
X = np.column_stack((np.linspace(-1, 1, 2000), np.zeros(2000), np.ones(2000)))
answers, transcript = run(method, problem, inputs.of_arrays(X, np.zeros(2000), problem), quote.release)
assert transcript == quote.release.plan
assert abs(answers[0] - 1 / 3) < 0.05, answers
assert "Spread" in StatisticRequest.model_json_schema()["$defs"]
print("added")
"""


@pytest.mark.slow
def test_a_statistic_is_one_file_and_one_line(tmp_path: Path) -> None:
    for package in ("accounting", "solvers", "purse", "app"):
        shutil.copytree(ROOT / package, tmp_path / package)  # with the compiled loops, which contain no statistic
    (tmp_path / "solvers/statistics/spread.py").write_text(STATISTIC)
    union = tmp_path / "solvers/statistics/__init__.py"
    text = union.read_text()
    imports = "from solvers.statistics.spread import Spread\n\nAnyStatistic = Spread | "
    union.write_text(text.replace("\nAnyStatistic = ", f"{imports}", 1))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    trial = subprocess.run(
        [sys.executable, "-c", TRIAL],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert trial.stdout == "added\n", trial.stderr
