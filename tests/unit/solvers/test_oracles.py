"""One way out: an oracle shows a method its documented operations and nothing else."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any, get_args

import numpy as np
import pytest

import solvers.methods
from accounting.errors import OutOfPlan
from accounting.mechanisms import (
    Gaussian,
    LastIterate,
    Mechanism,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
)
from accounting.mechanisms.mechanism import AbstractMechanism
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.data import Data
from solvers.data_access.full_batch import FullBatchOracle
from solvers.data_access.last_iterate import HiddenStepsOracle
from solvers.data_access.lattice_sums import TabulatingAccess
from solvers.data_access.meter import Meter
from solvers.data_access.oracles import DataOracles
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.walk import WalkingOracle
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods import Run
from solvers.methods.run import AllocatedRun, DataRun, FullBatchRun, SampledRun, StandardisedRun
from solvers.oracles import Access, Allocated, FullBatch, Sampled
from solvers.problem import Problem
from tests.support.seeded import SeededBits

PROBLEM = Problem(Squared(), n=6, d=2, row_norm=1.0)
PLAN = Plan((PlannedQuery("gradient", 1, Gaussian(), 1.0),))
ORACLES: list[tuple[Any, Any]] = [
    (FullBatchOracle, FullBatch),
    (HiddenStepsOracle, FullBatch),
    (SampledOracle, Sampled),
    (WalkingOracle, Sampled),
    (AllocatedOracle, Allocated),
    (DataAccess, Access),
    (TabulatingAccess, Access),
]
SOURCES = sorted(Path(solvers.methods.__file__).parent.rglob("*.py"))


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("kind", "documented"), ORACLES, ids=lambda kind: kind.__name__)
def test_a_malicious_method_finds_the_documented_operations_and_nothing_behind_them(kind: Any, documented: Any) -> None:
    oracle = kind(PROBLEM, inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM), PLAN, Noise(SeededBits(1)))
    assert public(type(oracle)) == public(documented) | {"transcript"}
    assert not hasattr(oracle, "__dict__")  # nor can anything be left there
    for name in public(type(oracle)):
        assert isinstance(getattr(oracle, name), MethodType)
    for name in ("data", "meter", "noise", "plan"):
        assert not hasattr(oracle, name)
    assert isinstance(oracle._data, Data)  # private names, which the next test refuses in methods
    assert isinstance(oracle._meter, Meter)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_no_method_writes_a_name_that_is_private_to_another_object(path: Path) -> None:
    """Nor reads attributes by name, nor goes from a bound operation back to its oracle."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            assert isinstance(node.value, ast.Name), ast.unparse(node)
            assert node.value.id in ("self", "made"), ast.unparse(node)
        if isinstance(node, ast.Name):
            assert node.id not in {"getattr", "vars", "eval", "exec", "globals", "locals", "open", "__import__"}


@pytest.mark.parametrize(
    "mechanism", [PoissonGaussian(0.1), RandomAllocation(0.5, 2), LastIterate(3, 0.5), RandomIterate(5)], ids=repr
)
def test_what_hides_by_drawing_or_by_steps_releases_no_value(mechanism: Mechanism) -> None:
    """Its noise is for a batch, a slot or a last point; a value over all rows would pay too little."""
    plan = Plan((PlannedQuery("value", 1, mechanism, 1.0),))
    access = DataAccess(PROBLEM, inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM), plan, Noise(SeededBits(1)))
    with pytest.raises(OutOfPlan, match="another mechanism"):
        access.release("value", np.zeros(2), 1.0)


FOLDERS: dict[str, Any] = {
    "oracle": (FullBatchRun, SampledRun),
    "allocated": AllocatedRun,
    "standardised": StandardisedRun,
    "data": DataRun,
}


@pytest.mark.parametrize("run", get_args(Run), ids=lambda run: run.__name__)
def test_a_run_opens_the_oracle_of_its_folder(run: Any) -> None:
    assert issubclass(run, FOLDERS[run.__module__.split(".")[2]])


@pytest.mark.parametrize(
    "second",
    [
        lambda oracles: oracles.full_batch(False),
        lambda oracles: oracles.sampled(False),
        lambda oracles: oracles.allocated(),
        lambda oracles: oracles.standardised(),
        lambda oracles: oracles.counting(),
        lambda oracles: oracles.weighted(),
        lambda oracles: oracles.access(False),
    ],
)
@pytest.mark.parametrize("first", [lambda oracles: oracles.full_batch(True), lambda oracles: oracles.counting()])
def test_a_plan_is_opened_once(first: Callable[[DataOracles], object], second: Callable[[DataOracles], object]) -> None:
    """A second oracle of the same plan would answer its queries a second time."""
    problem = replace(PROBLEM, d=2, columns=Columns((1,)))
    data = inputs.of_arrays(np.ones((6, 2)), np.ones(6), problem)
    oracles = DataOracles(data, PLAN, Noise(SeededBits(1)))
    first(oracles)
    with pytest.raises(OutOfPlan, match="once"):
        second(oracles)


def test_hidden_steps_and_tables_are_for_runs_that_declare_them() -> None:
    data = inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM)
    with pytest.raises(OutOfPlan, match="hidden steps"):
        DataOracles(data, PLAN, Noise(SeededBits(1))).full_batch(False).last_iterate("gradient", 3, 0.1)
    with pytest.raises(OutOfPlan, match="table"):
        DataOracles(data, PLAN, Noise(SeededBits(1))).access(False).mean_gradients(np.zeros((1, 2)))


@pytest.mark.parametrize("kind", [kind for kind, _ in ORACLES])
def test_no_oracle_takes_the_data_of_another_problem(kind: Any) -> None:
    other = replace(PROBLEM, row_norm=2.0)
    with pytest.raises(Unsuitable, match="another problem"):
        kind(other, inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM), PLAN, Noise(SeededBits(1)))


def test_the_data_are_seen_by_another_loss_alone() -> None:
    access = DataAccess(PROBLEM, inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM), PLAN, Noise(SeededBits(1)))
    for other in (replace(PROBLEM, row_norm=2.0), replace(PROBLEM, loss=Logistic())):
        with pytest.raises(Unsuitable, match="another problem"):
            access.mean_gradient(range(6), np.zeros(2), other)


def test_a_pass_needs_one_margin() -> None:
    problem = Problem(Softmax(3), n=6, d=2, row_norm=1.0)
    access = DataAccess(problem, inputs.of_arrays(np.ones((6, 2)), np.ones(6), problem), PLAN, Noise(SeededBits(1)))
    with pytest.raises(Unsuitable, match="one margin"):
        access.one_pass(range(6), np.zeros(6), 0.1)


def test_a_random_number_of_answers_is_drawn_once_in_a_run() -> None:
    """A second draw could allow more answers than the first one, and the guarantee is for one draw."""
    plan = Plan((PlannedQuery("gradient", 1, RandomIterate(100_000), 1.0),))
    meter = Meter(plan, Noise(SeededBits(1)))
    assert len({meter.horizon("gradient") for _ in range(5)}) == 1


def test_second_moments_clip_targets() -> None:
    """The bound of X'y holds for clipped targets only."""
    data = inputs.of_arrays(np.full((6, 2), 0.5), np.ones(6), PROBLEM)
    _, target_moments = DataAccess(PROBLEM, data, PLAN, Noise(SeededBits(1))).moments(0.25)
    assert target_moments == pytest.approx([0.125, 0.125])


@pytest.mark.parametrize("member", ["hides", "needs_all_rows", "fits"])
def test_a_mechanism_that_leaves_something_open_cannot_be_made(member: str) -> None:
    """A run on partitions, a release and a receipt ask the mechanism itself, so an unknown one must not pass."""
    known = {name: None for name in AbstractMechanism.__abstractmethods__ if name != member}
    with pytest.raises(TypeError, match=member):
        type("Unknown", (AbstractMechanism,), known)()
