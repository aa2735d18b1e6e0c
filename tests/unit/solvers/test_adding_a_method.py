"""A method is one file, and one line of the union beside its import: tried on a copy of the packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

METHOD = '''
from dataclasses import dataclass
from typing import Literal

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import gradient_bound
from solvers.oracles import FullBatch
from solvers.methods.run import Bounds, FullBatchRun, Strict
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True)
class OneStep(Strict):
    """w = prox(-step (grad F(0) + noise)).

    Parameters
    ----------
    step : eta; 1/L by default
    """

    step: float | None = None
    name: Literal["one_step"] = "one_step"

    def resolve(self, problem: Problem, privacy: Privacy) -> "OneStepRun":
        return OneStepRun(self.step or 1 / problem.L)


@dataclass(frozen=True, slots=True)
class OneStepRun(FullBatchRun):
    step: float
    name: Literal["one_step"] = "one_step"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        return (Query("gradient", 1, Gaussian()),)

    def bounds(self, problem: Problem) -> Bounds:
        return {"gradient": (gradient_bound(problem), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        return float(problem.n)

    def run(self, oracle: FullBatch, problem: Problem) -> Vector:
        return problem.prox(-self.step * oracle.gradient("gradient", problem.start), self.step)
'''

TRIAL = """
import json
import numpy as np
from accounting import Privacy
from app.wire import JobRequest
from app.sources.spec import JobSpec
from pydantic import TypeAdapter
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.losses import Logistic
from solvers.solve import run

body = {"dataset": "ds_0", "target": "t", "privacy": {"epsilon": 1.0}, "method": {"name": "one_step", "step": 0.5}}
method = JobRequest.model_validate_json(json.dumps(body)).method
problem = Problem(Logistic(), n=50, d=2, row_norm=1.0)
quote = plan(method, problem, Privacy(1.0, 1e-6))
stored = TypeAdapter(JobSpec.model_fields["method"].annotation).validate_json('{"step":0.5,"name":"one_step"}')
assert stored == quote.method, stored
w, transcript = run(stored, problem, inputs.of_arrays(np.ones((50, 2)), np.ones(50), problem), quote.release)
assert transcript == quote.release.plan
assert np.isfinite(w).all()
assert "OneStep" in JobRequest.model_json_schema()["$defs"]
print("added")
"""


@pytest.mark.slow
def test_a_method_is_one_file_and_one_line(tmp_path: Path) -> None:
    for package in ("accounting", "solvers", "purse", "app"):
        shutil.copytree(ROOT / package, tmp_path / package)  # compiled loops with it: they know nothing of methods
    (tmp_path / "solvers/methods/oracle/one_step.py").write_text(METHOD)
    union = tmp_path / "solvers/methods/__init__.py"
    text = union.read_text()
    imported = "from solvers.methods.run import"
    text = text.replace(imported, f"from solvers.methods.oracle.one_step import OneStep as OneStep\n{imported}", 1)
    union.write_text(text.replace("    | PhasedSgd\n", "    | PhasedSgd\n    | OneStep\n", 1))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TRIAL], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "added\n", done.stderr
