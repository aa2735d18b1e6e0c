"""A loss is one file and its name in the union: one is added here, to a copy of the product, and all of it follows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[3]

_FILE = '''
"""ln cosh of the residual."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers.losses.one_margin import Floats, OneMargin


@dataclass(frozen=True, slots=True)
class LogCosh(OneMargin):
    """f(m, y) = ln cosh(m - y);  |f'| <= 1,  f'' <= 1."""

    takes: ClassVar[Literal["number"]] = "number"
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 1.0

    name: Literal["log_cosh"] = "log_cosh"

    @staticmethod
    def derivative(m: float, y: float) -> float:
        """tanh(m - y)."""
        return math.tanh(m - y)

    def value(self, margin: Floats, y: Floats) -> Floats:
        """f(m, y), elementwise."""
        return np.logaddexp(margin - y, y - margin) - math.log(2)
'''

_USED = """
import json
import sys
import numpy as np
import pytest
from accounting import Privacy
from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from app.wire import JobRequest
from solvers import kernels, methods, plan, solve
from solvers.data_access import inputs
from solvers.data_access.walk import WalkingOracle
from solvers.losses import Loss, names
from solvers.losses.log_cosh import LogCosh
from solvers.problem import Problem

assert "log_cosh" in names("number")
import solvers.compiled
before = kernels.c_function.cache_info().misses
rng = np.random.default_rng(1)
problem, w = Problem(LogCosh(), n=2000, d=3, row_norm=2.0), np.array([0.3, -0.2, 0.1])
X = rng.uniform(-1, 1, (2000, 3))
y = X @ w + 0.01 * rng.standard_normal(2000)
for method in (methods.DpGd(), methods.OutputPerturbation(), methods.DpSvrg(epochs=3, inner_steps=400, batch=5)):
    assert plan(method, problem, Privacy(50.0, 1e-5)).release.epsilon <= 50
    assert np.linalg.norm(solve(method, problem, X, y, Privacy(50.0, 1e-5)).coefficients - w) < 0.1, method.name
queries = Plan((PlannedQuery("change", 9, PoissonGaussian(0.002), 1.0),))
oracle = WalkingOracle(problem, inputs.of_arrays(X, y, problem), queries, Noise())
assert oracle.walk("change", w, w, np.zeros(3), 0.1, 9) is not None
assert kernels.c_function.cache_info().misses == before  # compiled as the union was, not when it was asked for
schema = JobRequest.model_json_schema()
assert schema["$defs"]["LogCosh"]["properties"]["name"]["const"] == "log_cosh"
assert schema["$defs"]["LogCosh"]["additionalProperties"] is False
assert "log_cosh" in json.dumps(schema["properties"]["loss"])
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "LogCosh", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_it_is_planned_solved_walked_compiled_in_the_schema_and_in_the_contract_suites(tmp_path: Path) -> None:
    """The compiled loops know nothing of losses: those of the copy come from the cache that was copied with them."""
    for folder in ("accounting", "solvers", "purse", "app", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "solvers/losses/log_cosh.py").write_text(_FILE.lstrip())
    union = tmp_path / "solvers/losses/__init__.py"
    text = union.read_text().replace("\nLoss = ", "\nfrom solvers.losses.log_cosh import LogCosh\n\nLoss = LogCosh | ")
    union.write_text(text)

    suites = [f"tests/unit/solvers/{name}.py" for name in ("test_losses", "test_kernels")]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _USED, *suites],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert int(said.split(" passed")[0].split()[-1]) >= 10
