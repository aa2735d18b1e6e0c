"""An endpoint is a function in its room's routes: one is added to a copy, and the suite asks for the rest."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]

ENDPOINT = '''

@router.get("/{dataset_id}/width", summary="Count a dataset's columns", responses=responses("not_found"))
def width(base: Base, principal: Anyone, dataset_id: DatasetId) -> int:
    """How many columns are declared."""
    return len(service.get(base, dataset_id, principal).columns)
'''
NAME = "GET /v1/datasets/{dataset_id}/width"
# What it touches beside its own file: where somebody has to decide, or to tell.
BESIDE = {
    "tests/support/access.py": ("\nRULES = {\n", f"    {tuple(NAME.split())}: ALL,\n"),
    "docs/http.md": ("\n| --- | --- | --- |\n", f"| `{NAME}` | any role | how many columns |\n"),
    "docs/commands.md": ("\n| --- | --- |\n", f"| `{NAME}` | `purse datasets` |\n"),
}
WITHOUT = {
    "test_every_route_has_its_row_and_no_row_is_left_over",
    "test_every_route_has_a_row_with_a_command",
    "test_every_route_is_public_by_name_or_has_a_rule",
    "test_rule_is_in_the_routes_own_dependencies",
    "test_wrong_role_is_403_and_right_role_is_let_in",
}
SUITES = ["docs/test_docs_complete", "docs/test_commands_page", "service/test_identity", "service/test_grants"]

TRIED = """
import json, sys
from pathlib import Path
import pytest

class Told:
    def __init__(self):
        self.passed, self.failed = [], []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            getattr(self, report.outcome).append(report.nodeid.partition("::")[2])

beside, suites = json.loads(sys.argv[1])
told = []
for last in (False, True):
    told.append(Told())
    pytest.main(["-q", "-p", "no:cacheprovider", "-k", "width or every_route", "--tb=no", *suites], [told[-1]])
    for module in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[module]
    for path, (after, line) in beside.items():
        text = Path(path).read_text()
        Path(path).write_text(text.replace(after, after + line, 1))
Path("told.json").write_text(json.dumps([vars(one) for one in told]))
"""


@pytest.mark.slow
def test_it_is_refused_until_somebody_says_who_may_and_then_has_all_that_every_route_has(tmp_path: Path) -> None:
    """A token, a role, a grant, one shape of errors, a description: the tests of every route are its own."""
    for folder in ("accounting", "solvers", "purse", "app", "tests", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "app/datasets/routes.py").open("a") as routes:
        routes.write(ENDPOINT)
    subprocess.run(
        [sys.executable, "-c", TRIED, json.dumps([BESIDE, [f"tests/{name}.py" for name in SUITES]])],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        timeout=PATIENCE,
    )
    without, beside = json.loads((tmp_path / "told.json").read_text())
    assert {name.partition("[")[0] for name in without["failed"]} == WITHOUT
    assert beside["failed"] == []
    own = {name.partition("[")[0] for name in beside["passed"] if "width" in name}
    assert own > {"test_no_valid_token_is_401", "test_without_a_grant_a_dataset_is_as_one_that_never_was"}
