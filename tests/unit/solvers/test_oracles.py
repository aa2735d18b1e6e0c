"""An oracle offers a method only its documented operations, and gives at most the answers of the plan."""

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import solvers
from accounting.errors import OutOfPlan
from accounting.mechanisms import (
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    Parallel,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
    Resampled,
    RowObjectivePerturbation,
    Selection,
    SvrgStep,
    WithoutReplacement,
)
from accounting.mechanisms.mechanism import AbstractFixedAnswers, AbstractMechanism
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Unit
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.allocated import AllocatedOracle
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
from solvers.oracles import Access, Allocated, Counting, FullBatch, Sampled, Standardised, Weighted
from solvers.problem import Problem
from tests.support.runs import access_to
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
PACKAGES = ("methods", "preparation", "statistics", "inference")  # whose code gets an oracle
SOURCES = sorted(path for name in PACKAGES for path in Path(solvers.__file__).with_name(name).rglob("*.py"))
LIBRARIES = {"abc", "collections", "dataclasses", "functools", "math", "numpy", "pydantic", "scipy", "typing"}
UNSAFE_NAMES = {"getattr", "setattr", "delattr", "vars", "eval", "exec", "globals", "locals", "open", "__import__"}


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
    slots = {name for kind in type(oracle).__mro__ for name in getattr(kind, "__slots__", ())}
    assert all(name.startswith("_") for name in slots)  # private names, which a later test refuses in methods
    assert len(slots) >= 3


@pytest.mark.parametrize(
    ("opened", "documented", "extra"),
    [
        (DataOracles.standardised, Standardised, {"transcript", "released_means"}),
        (DataOracles.counting, Counting, {"transcript"}),
        (DataOracles.weighted, Weighted, {"transcript"}),
    ],
    ids=["standardised", "counting", "weighted"],
)
def test_oracles_of_declared_columns_have_the_documented_members(
    opened: Callable[[DataOracles], Any], documented: Any, extra: set[str]
) -> None:
    problem = replace(PROBLEM, columns=Columns((1,)))
    oracle = opened(DataOracles(inputs.of_arrays(np.ones((6, 2)), np.ones(6), problem), PLAN, Noise(SeededBits(1))))
    assert public(type(oracle)) == public(documented) | extra
    assert not hasattr(oracle, "__dict__")
    for name in public(type(oracle)):
        if not isinstance(getattr(oracle, name), MethodType):
            with pytest.raises(AttributeError):
                setattr(oracle, name, None)


def is_harmless(node: ast.AST) -> bool:
    """Return whether a method may contain this node, which must not read or change private parts of another object."""
    if isinstance(node, ast.Attribute) and (node.attr.startswith("_") or isinstance(node.ctx, ast.Store | ast.Del)):
        return isinstance(node.value, ast.Name) and node.value.id in ("self", "made")
    if isinstance(node, ast.Attribute):
        return node.attr not in {"format", "format_map"}  # a format string reads attributes by name
    if isinstance(node, ast.MatchClass):
        return not any(name.startswith("_") for name in node.kwd_attrs)
    if isinstance(node, ast.Name):
        return node.id not in UNSAFE_NAMES
    if isinstance(node, ast.Import):
        return all(alias.name.split(".")[0] in LIBRARIES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        is_public = not any(alias.name.startswith("_") for alias in node.names)
        return is_public and (node.module or "").split(".")[0] in LIBRARIES | {"accounting", "solvers"}
    return True


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_method_uses_a_name_that_is_private_to_another_object(path: Path) -> None:
    """No method reads attributes by name, starts threads, or gets an oracle from one of its bound operations."""
    for node in ast.walk(ast.parse(path.read_text())):
        assert is_harmless(node), ast.unparse(node)


@pytest.mark.parametrize(
    "source",
    [
        "oracle._data",
        "oracle.gradient.__self__",
        "oracle.moments = None",
        "Gaussian.perturb = None",
        "match oracle:\n    case object(_data=data):\n        data",
        "'{0._data}'.format(oracle)",
        "getattr(oracle, name)",
        "import threading",
        "from operator import attrgetter",
        "from solvers.data_access.meter import _x",
    ],
)
def test_the_search_for_private_names_finds_each_way(source: str) -> None:
    assert not all(is_harmless(node) for node in ast.walk(ast.parse(source)))


def accessed(
    mechanism: Mechanism, problem: Problem = PROBLEM, uses: int = 1, records: range | None = None
) -> DataAccess:
    """Return an access whose plan has uses of the mechanism, named "value". These records, or all, have been read."""
    present = np.ones(problem.slots, dtype=np.bool_) if problem.unit.is_person else None
    data = inputs.of_arrays(np.ones((problem.slots, 2)), np.ones(problem.slots), problem, present)
    access = access_to(data, Plan((PlannedQuery("value", uses, mechanism, 1.0),)))
    access.mean_gradient(records or range(problem.n), np.zeros(2))
    return access


class PureAndHiding(Laplace):
    """A pure mechanism whose cost relies on a secret. The product has no such mechanism."""

    source = None


HIDING: list[Any] = [
    PoissonGaussian(0.1),
    RandomAllocation(0.5, 2),
    LastIterate(3, 0.5),
    RandomIterate(5),
    Selection(2),
    SvrgStep(2, 6),
    WithoutReplacement(2, 6),
]


@pytest.mark.parametrize("mechanism", [*HIDING, *(Parallel(each, 2) for each in HIDING)], ids=repr)
def test_mechanisms_that_sample_or_hide_steps_release_no_value(mechanism: Mechanism) -> None:
    """Its noise is for a batch, a slot or a last point; a value over all rows would pay too little."""
    with pytest.raises(OutOfPlan, match="another mechanism"):
        accessed(mechanism).release("value", np.zeros(2), 1.0)


def test_drawn_rows_do_not_make_a_hiding_mechanism_releasable() -> None:
    with pytest.raises(OutOfPlan, match="another mechanism"):
        accessed(Resampled(PureAndHiding(), 6)).redrawn().release("value", np.zeros(2), 1.0)


SEVERAL_DRAWS: list[Any] = [
    Resampled(Resampled(Laplace(), 6), 6),  # type: ignore[arg-type]
    Parallel(Resampled(Laplace(), 6), 2),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("mechanism", SEVERAL_DRAWS, ids=repr)
def test_one_draw_serves_no_mechanism_of_several_draws(mechanism: Mechanism) -> None:
    """The cost of such a mechanism is for several draws, and a run makes one."""
    access = accessed(mechanism).redrawn()
    access.mean_gradient(range(6), np.zeros(2))
    with pytest.raises(OutOfPlan, match="another mechanism"):
        access.release("value", np.zeros(2), 1.0)


@pytest.mark.parametrize("wrapper", [Parallel, Resampled])
def test_wrapped_mechanisms_have_a_fixed_number_of_answers(wrapper: type[Any]) -> None:
    """A wrapper has a fixed number of answers, so it would never draw the random number of an inner mechanism."""
    for each in get_args(get_type_hints(wrapper)["each"]):
        assert issubclass(each, AbstractFixedAnswers)
        assert wrapper not in get_args(get_type_hints(each).get("each"))


def test_a_refused_release_uses_no_answer() -> None:
    access = accessed(RandomIterate(5))
    with pytest.raises(OutOfPlan, match="another mechanism"):
        access.release("value", np.zeros(2), 1.0)
    assert access.transcript().queries == ()


def test_a_random_iterate_reads_all_records_on_any_partition() -> None:
    mechanism: AbstractMechanism = RandomIterate(5)
    assert mechanism.needs_all_rows(10**9) is None


def test_answers_after_moments_are_counted_from_those_of_the_moments() -> None:
    problem, heard = replace(PROBLEM, columns=Columns((1,))), list[int]()
    plan = Plan((PlannedQuery("means", 1, Gaussian(), 1.0), PlannedQuery("counts", 2, Gaussian(), 1.0)))
    data = inputs.of_arrays(np.ones((6, 2)), np.ones(6), problem)
    oracle = DataOracles(data, plan, Noise(SeededBits(1)), heard.append).counting()
    oracle.moments.means("means")
    for _ in range(2):
        oracle.histograms("counts", 2)
    assert heard == [1, 2, 3]


def test_a_table_of_gradients_reads_all_records() -> None:
    data = inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM)
    access = TabulatingAccess(
        PROBLEM, data, Plan((PlannedQuery("value", 1, Parallel(Laplace(), 2), 1.0),)), Noise(SeededBits(1))
    )
    access.mean_gradient(range(3), np.zeros(2))
    access.release("value", np.zeros(2), 1.0)
    access.mean_gradients(np.zeros((1, 2)))
    access.mean_gradient(range(3, 6), np.zeros(2))
    with pytest.raises(OutOfPlan, match="disjoint"):
        access.release("value", np.zeros(2), 1.0)


@pytest.mark.parametrize(
    ("mechanism", "unit"),
    [
        (Parallel(Laplace(), 7), Unit()),
        (RowObjectivePerturbation(0.1), Unit("person", 2)),
        (Parallel(RowObjectivePerturbation(0.1), 2), Unit("person", 2)),  # type: ignore[arg-type]
    ],
    ids=["parts", "rows", "rows of parts"],
)
def test_a_mechanism_for_other_records_releases_nothing(mechanism: Mechanism, unit: Unit) -> None:
    """The stated cost of such a release would be less than the real cost."""
    with pytest.raises(OutOfPlan, match="other rows"):
        accessed(mechanism, replace(PROBLEM, unit=unit)).release("value", np.zeros(2), 1.0)


@pytest.mark.parametrize("rows", [2, 5, 7])
def test_drawn_rows_release_nothing_that_is_planned_for_another_number(rows: int) -> None:
    with pytest.raises(OutOfPlan, match="other rows"):
        accessed(Resampled(Laplace(), rows)).redrawn().release("value", np.zeros(2), 1.0)


def test_drawn_rows_and_disjoint_parts_serve_one_use() -> None:
    """A second use would repeat the same draw, or the same parts. The proofs cover one use."""
    with pytest.raises(OutOfPlan, match="other rows"):
        accessed(Resampled(Laplace(), 6), uses=2).redrawn().release("value", np.zeros(2), 1.0)
    with pytest.raises(OutOfPlan, match="disjoint"):
        accessed(Parallel(Laplace(), 2), uses=2).release("value", np.zeros(2), 1.0)


def test_a_part_contains_all_records_read_since_the_last_release() -> None:
    access = accessed(Parallel(Laplace(), 2), records=range(3))
    access.release("value", np.zeros(2), 1.0)
    access.mean_gradient(range(2), np.zeros(2))
    access.mean_gradient(range(4, 6), np.zeros(2))
    with pytest.raises(OutOfPlan, match="disjoint"):
        access.release("value", np.zeros(2), 1.0)


def test_records_cannot_be_read_after_rows_were_drawn_from_them() -> None:
    """Otherwise one part could be released from drawn rows, and the next part from all records again."""
    access = accessed(Resampled(Parallel(Laplace(), 2), 6))
    drawn = access.redrawn()
    with pytest.raises(OutOfPlan, match="disjoint"):  # the records were read before the draw
        drawn.release("value", np.zeros(2), 1.0)
    access = accessed(Resampled(Parallel(Laplace(), 2), 6))
    drawn = access.redrawn()
    assert drawn is access
    drawn.mean_gradient(range(6), np.zeros(2))
    drawn.release("value", np.zeros(2), 1.0)
    access.mean_gradient(range(6), np.zeros(2))
    with pytest.raises(OutOfPlan, match="disjoint"):
        access.release("value", np.zeros(2), 1.0)


@pytest.mark.parametrize("count", [-1, 0, -(10**6), math.nan, math.inf, 0.5])
def test_a_meter_counts_positive_numbers_of_answers(count: Any) -> None:
    """A negative count would return answers to the plan. After NaN, no count would exceed the plan."""
    meter = Meter(PLAN, Noise(SeededBits(1)))
    with pytest.raises(OutOfPlan, match="1 answers"):
        meter.take("gradient", Gaussian, count)
    meter.take("gradient", Gaussian)
    with pytest.raises(OutOfPlan, match="1 answers"):
        meter.take("gradient", Gaussian)


def test_slots_of_an_earlier_use_are_not_answered_if_a_draw_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof assumes that a record's slots in two uses are independent."""
    plan = Plan((PlannedQuery("slot", 2, RandomAllocation(1.0, 2), 1.0),))
    data = inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM)
    oracle = AllocatedOracle(PROBLEM, data, plan, Noise(SeededBits(1)))
    for _ in range(2):
        oracle.allocated_gradient("slot", np.zeros(2))
    monkeypatch.setattr("solvers.data_access.allocated.batches.slots", lambda *_: [][0])
    for error in (IndexError, KeyError):
        with pytest.raises(error):
            oracle.allocated_gradient("slot", np.zeros(2))


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
    kinds = {walks: type(DataOracles(data, PLAN, Noise(SeededBits(1))).sampled(walks)) for walks in (False, True)}
    assert kinds == {False: SampledOracle, True: WalkingOracle}


@pytest.mark.parametrize("kind", [kind for kind, _ in ORACLES])
def test_no_oracle_takes_the_data_of_another_problem(kind: Any) -> None:
    changed = replace(PROBLEM, row_norm=2.0)
    with pytest.raises(Unsuitable, match="another problem"):
        kind(changed, inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM), PLAN, Noise(SeededBits(1)))


def test_only_the_loss_may_differ_from_the_problem_of_the_data() -> None:
    access = access_to(inputs.of_arrays(np.ones((6, 2)), np.ones(6), PROBLEM), PLAN)
    for variant in (replace(PROBLEM, row_norm=2.0), replace(PROBLEM, loss=Logistic())):
        with pytest.raises(Unsuitable, match="another problem"):
            access.mean_gradient(range(6), np.zeros(2), variant)


def test_a_pass_needs_one_margin() -> None:
    problem = Problem(Softmax(3), n=6, d=2, row_norm=1.0)
    access = access_to(inputs.of_arrays(np.ones((6, 2)), np.ones(6), problem), PLAN)
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
    _, target_moments = access_to(data, PLAN).moments(0.25)
    assert target_moments == pytest.approx([0.125, 0.125])


@pytest.mark.parametrize("member", ["source", "horizon", "needs_all_rows", "fits"])
def test_a_mechanism_without_a_member_cannot_be_created(member: str) -> None:
    """Runs on partitions, releases and receipts use the mechanism's own members, so none may be missing."""
    members = {name: None for name in AbstractMechanism.__abstractmethods__ if name != member}
    with pytest.raises(TypeError, match=member):
        type("Unknown", (AbstractMechanism,), members)()
