"""One addition of each kind follows CONTRIBUTING.md on a copy of the product, and the suite asks for the rest of it.

First the copy has the code and the line in the union. Then the tests of all members fail that CONTRIBUTING.md lists
under "Also needed". Last the copy has these rows, pages and cases too, and all tests pass.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests/support/additions"
Line = tuple[str, str, str]  # file, text that is in it, and the text that replaces the first occurrence


def line_after(file: str, text: str, line: str) -> Line:
    return file, text, text + line


def line_before(file: str, text: str, line: str) -> Line:
    return file, text, line + text


@dataclass(frozen=True)
class Addition:
    """The files that a contributor writes for one addition.

    Parameters
    ----------
    files : sources in tests/support/additions by their paths in the product
    lines : lines of code: in a union, a table, a router
    remaining_lines : rows, pages and cases that the suite requires
    asking : tests that fail without the remaining lines
    """

    lines: tuple[Line, ...]
    remaining_lines: tuple[Line, ...]
    asking: frozenset[str]
    files: Mapping[str, str]


PROOF = "The statement, its preconditions and the proof of a real addition stand here. " * 8
ROUTE = """

@router.get("/{dataset_id}/width", summary="Count a dataset's columns", responses=responses("not_found"))
def width(database: ServiceDatabase, principal: Anyone, dataset_id: DatasetId) -> dict[str, int]:
    \"\"\"Return the number of declared columns.\"\"\"
    return {"columns": len(service.get(database, dataset_id, principal).columns)}
"""
COMMAND = '''def columns(file: File) -> Output:
    """Show the column names of a CSV file.

    Parameters
    ----------
    file : A CSV file.

    \\b
    Example:
      purse columns people.csv
    """
    names = file.read_text().partition("\\n")[0].split(",")
    return Output(names, " ".join(names))


'''
PAGE = """

@router.get(f"{PREFIX}/colophon")
async def colophon(visit: Visiting) -> Response:
    \"\"\"Return a page of plain text.\"\"\"
    return await visit.page("colophon.html")
"""
RESULT = '''class SpreadResult(StatisticResult):
    """Mean squared distance of the encoded numbers from their means."""

    heading: ClassVar = "Spread of"
    releases: ClassVar = "the mean squared distance of numbers from their means"
    is_of_numbers: ClassVar = True

    name: Literal["spread"]
    """Kind of the statistic."""
    distance: Interval
    """The mean squared distance."""

    def lay_out(self, dates: Dates = NO_DATES) -> Iterator[Table]:  # noqa: ARG002
        """Yield the distance."""
        yield Table(("measure", "value"), [("squared distance", estimate_of(self.distance))], "Spread")


'''
ESTIMATE = """        case Spread():
            return SpreadResult(name="spread", distance=interval(np.array(_distance(spec, method, answers, rows))))
"""
WIDTHS = """        case Spread():
            low, high = _distance(spec, method, np.ones(2), rows)[1:]
            return [IntervalWidth.of("squared distance", None, high - low, "typical")]
"""
DISTANCE = """def _distance(spec: JobSpec, method: Spread, answers: Answers, rows: Rows) -> tuple[float, ...]:
    return rows.around(float(answers[0]), stds_of(method, spec.problem, spec.release_plan.plan)["spread"])


"""
COIN = "  coin: { own: { sides: whole(2, 2) }, fits: (q, n, k) => k === 1 },\n"
NAME = "GET /v1/datasets/{dataset_id}/width"
GENERATED = "test_tables_follow_from_the_code"
LISTED = "test_every_module_that_counts_privacy_is_in_a_list"
TABLE_OF_FOUR = "\n| --- | --- | --- | --- |\n"
MESSAGES, RESULTS = "purse/wire/statistics.py", "app/results/statistics.py"
CASES, FIRST_CASE = "solvers/audit/cases.py", '    "dp_gd": Case('
ADDITIONS = {
    "loss": Addition(
        files={"solvers/losses/log_cosh.py": "log_cosh.py"},
        lines=(
            line_before(
                "solvers/losses/__init__.py",
                "\nLoss = ",
                "\nfrom solvers.losses.log_cosh import LogCosh\n",
            ),
            ("solvers/losses/__init__.py", "\nLoss = ", "\nLoss = LogCosh | "),
        ),
        remaining_lines=(),
        asking=frozenset({GENERATED}),
    ),
    "mechanism": Addition(
        files={"accounting/mechanisms/coin.py": "coin.py"},
        lines=(
            line_before(
                "accounting/mechanisms/__init__.py",
                "\nMechanism = (\n",
                "\nfrom accounting.mechanisms.coin import Coin\n",
            ),
            line_after("accounting/mechanisms/__init__.py", "\nMechanism = (\n", "    Coin |"),
        ),
        remaining_lines=(
            ("docs/proofs/coin.md", "", PROOF),
            line_before("app/pages/static/receipt.js", "  svrg_step: ", COIN),
        ),
        asking=frozenset({"test_every_mechanism_and_method_has_its_proof", LISTED}),
    ),
    "method": Addition(
        files={"solvers/methods/oracle/one_step.py": "one_step.py"},
        lines=(
            line_before(
                "solvers/methods/__init__.py",
                "from solvers.methods.run import",
                "from solvers.methods.oracle.one_step import OneStep as OneStep\n",
            ),
            line_after("solvers/methods/__init__.py", "    | PhasedSgd\n", "    | OneStep\n"),
        ),
        remaining_lines=(
            ("docs/proofs/one_step.md", "", PROOF),
            ("docs/methods/one_step.md", "", PROOF),
            line_before(
                "docs/methods/README.md",
                "| [`dp_gd`](dp_gd.md) | gradients",
                "| [`one_step`](one_step.md) | a gradient of all rows | Gaussian | none |\n",
            ),
            line_before(CASES, FIRST_CASE, '    "one_step": Case(methods.OneStep(step=0.01), _FLAT),\n'),
        ),
        asking=frozenset(
            {
                "test_every_mechanism_and_method_has_its_proof",
                "test_every_method_has_a_case",
                "test_every_method_has_its_row",
                LISTED,
            }
        ),
    ),
    "statistic": Addition(
        files={"solvers/statistics/spread.py": "spread.py"},
        lines=(
            line_before(
                "solvers/statistics/__init__.py",
                "\nAnyStatistic = ",
                "\nfrom solvers.statistics.spread import Spread as Spread\n",
            ),
            ("solvers/statistics/__init__.py", "\nAnyStatistic = ", "\nAnyStatistic = Spread | "),
            line_before(MESSAGES, "Result = Annotated[\n", RESULT),
            line_after(MESSAGES, "Result = Annotated[\n", "    SpreadResult | "),
            line_after(RESULTS, "    Result,\n", "    SpreadResult,\n"),
            line_before(RESULTS, "from solvers.statistics import", "from solvers.statistics.spread import Spread\n"),
            line_before(RESULTS, '        case Profile():\n            raise ValueError("a profile has its', ESTIMATE),
            line_before(RESULTS, '        case Profile():\n            raise ValueError("a profile has widths', WIDTHS),
            line_before(RESULTS, "def _rows(", DISTANCE),
        ),
        remaining_lines=(("docs/proofs/statistics.md", "", PROOF),),
        asking=frozenset({GENERATED, LISTED}),
    ),
    "route": Addition(
        files={},
        lines=(("app/datasets/routes.py", "", ROUTE),),
        remaining_lines=(
            line_after("docs/http.md", TABLE_OF_FOUR, f"| `{NAME}` | any role | Count columns. | `purse datasets` |\n"),
            line_after("tests/support/examples.py", 'for path in ("", ', '"/width", '),
        ),
        asking=frozenset(
            {
                "test_every_body_and_every_answer_has_an_example_that_fits_its_schema",
                "test_every_route_has_its_row_and_no_row_is_left_over",
                "test_every_route_is_public_by_name_or_has_a_rule",
                "test_rule_is_in_the_routes_own_dependencies",
                "test_wrong_role_is_403_and_right_role_is_let_in",
            }
        ),
    ),
    "command": Addition(
        files={},
        lines=(
            line_before("app/cli/check.py", "def check(\n", COMMAND),
            line_after(
                "app/cli/table.py",
                "Final[Sequence[Command]] = (\n",
                '    Command("columns", "check.columns", "Show the column names of a CSV file"),\n',
            ),
            line_after("app/cli/table.py", '"Data": (', '"columns", '),
        ),
        remaining_lines=(),
        asking=frozenset({GENERATED}),
    ),
    "page": Addition(
        files={"app/pages/templates/colophon.html": "colophon.html"},
        lines=(("app/pages/routes.py", "", PAGE),),
        remaining_lines=(),
        asking=frozenset({GENERATED}),
    ),
}
# Files that a contributor writes by hand. Those that `GENERATORS` write are not among them, nor is a mechanism's audit.
FILES = {"loss": 2, "mechanism": 4, "method": 6, "statistic": 5, "route": 3, "command": 2, "page": 2}
GENERATORS = ("tests.support.doc_tables", "tests.support.examples", "tests.support.review")
SUITES = (
    "test_trials",
    *("unit/solvers/test_losses", "unit/solvers/test_kernels", "privacy/test_audit_cases"),
    "unit/solvers/test_relation",
    *("docs/test_docs_complete", "docs/test_partitions", "docs/test_reviewing"),
    *("service/test_identity", "service/test_grants", "service/test_pages", "service/test_attack"),
    "service/test_examples",
)
SELECTED = (
    "trial or LogCosh or log_cosh or coin or OneStep or one_step or spread or width or colophon or "
    "every_route or every_method_has_a_case or every_body or tables_follow or counts_privacy or needs_one_machine"
)
# Without the remaining lines, trials and audits pass: their files would be without a row or a page, and no less right.
SELECTED_WITHOUT = f"({SELECTED}) and not (trial or half_the_noise)"
# The generators run in a child, which need not import the product again, and whose caches end with it.
RUN = """
import json, os, runpy, sys
from pathlib import Path
import app.main, pytest

class Outcomes:
    def __init__(self):
        self.passed, self.failed = [], []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            getattr(self, report.outcome).append(report.nodeid.partition("::")[2])

generators, selected, suites = map(json.loads, sys.argv[1:])
if (child := os.fork()) == 0:
    for module in generators:
        runpy.run_module(module, run_name="__main__")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
outcomes = Outcomes()
pytest.main(["-q", "-p", "no:cacheprovider", "-k", selected, "--tb=short", *suites], [outcomes])
Path("outcomes.json").write_text(json.dumps(vars(outcomes)))
"""


def write(folder: Path, line: Line) -> None:
    path, text, replacement = line
    file = folder / path
    content = file.read_text() if file.exists() else ""
    assert text in content, line
    file.write_text(content.replace(text, replacement, 1) if text else content + replacement)


def run(copy: Path, generators: Sequence[str], selected: str) -> tuple[dict[str, list[str]], str]:
    """Run generators and then tests in the copy. Return the tests that passed and failed, and the output."""
    suites = [f"tests/{name}.py" for name in SUITES]
    process = subprocess.run(
        [sys.executable, "-c", RUN, *map(json.dumps, (generators, selected, suites))],
        cwd=copy,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert process.returncode == 0, process.stderr
    return json.loads((copy / "outcomes.json").read_text()), process.stdout


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], dict[str, list[str]], str]:
    """Tests that passed and failed without the remaining lines and with them, and the printed output."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("accounting", "solvers", "purse", "app", "tests", "docs"):
        # With the compiled loops, but without temporary files that other processes are writing there.
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.pyc.*", "*.tmp.*"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copy(SOURCES / "trials.py", copy / "tests/test_trials.py")
    for addition in ADDITIONS.values():
        for path, source in addition.files.items():
            shutil.copy(SOURCES / source, copy / path)
        for line in addition.lines:
            write(copy, line)
    without, printed_without = run(copy, (), SELECTED_WITHOUT)
    for addition in ADDITIONS.values():
        for line in addition.remaining_lines:
            write(copy, line)
    complete, printed = run(copy, GENERATORS, SELECTED)
    return without, complete, printed_without + printed


def names(tests: list[str]) -> set[str]:
    return {name.partition("[")[0] for name in tests}


@pytest.mark.slow
def test_the_suite_requires_the_remaining_lines_of_an_addition(outcomes: Any) -> None:
    without, _, printed = outcomes
    assert names(without["failed"]) == frozenset().union(*(each.asking for each in ADDITIONS.values())), printed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_addition_of_each_kind_passes_the_tests_of_all_members(outcomes: Any, kind: str) -> None:
    _, complete, printed = outcomes
    assert complete["failed"] == [], printed
    assert kind == "route" or f"test_trial_of_a_{kind}" in complete["passed"]
    assert ADDITIONS[kind].asking <= names(complete["passed"])


@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_addition_has_few_files(kind: str) -> None:
    addition = ADDITIONS[kind]
    lines = (*addition.lines, *addition.remaining_lines)
    assert len({*addition.files, *(file for file, _, _ in lines)}) == FILES[kind]


@pytest.mark.slow
def test_a_route_has_the_tests_of_all_routes(outcomes: Any) -> None:
    """The route needs a valid token, and a grant on the dataset."""
    _, complete, _ = outcomes
    own = names([name for name in complete["passed"] if "width" in name])
    assert own > {"test_no_valid_token_is_401", "test_without_a_grant_a_dataset_looks_like_an_unknown_one"}
    assert sum("LogCosh" in name for name in complete["passed"]) >= 10
