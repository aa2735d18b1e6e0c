"""What an import of the client and a list of the commands load, and what they do without."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from purse import text
from tests.support.light import WITHOUT, python
from tests.support.models import model_document
from tests.support.patience import PATIENCE

CLIENT = {
    *("annotated_types", "anyio", "certifi", "click", "h11", "httpcore", "httpx", "idna", "pydantic", "pydantic_core"),
    *("pygments", "rich", "sniffio", "typing_extensions", "typing_inspection", "accounting", "purse", "markdown_it"),
    *("mdurl", "socksio", "brotli", "brotlicffi", "zstandard", "h2", "backports"),
}
HELP = {"annotated_doc", "app", "shellingham", "typer", "rich"}


def _loaded(code: str) -> set[str]:
    """Modules of others, and of ours, that a fresh interpreter has loaded after it."""
    told = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before, sep='\\n')"
    found = {name.split(".")[0] for name in python(told).stdout.split("\n") if name}
    return {name for name in found - sys.stdlib_module_names if not name.startswith("_")}


@pytest.mark.slow
def test_an_import_loads_nothing_and_the_client_loads_little() -> None:
    assert _loaded("import purse") == {"purse"}
    assert python(f"{WITHOUT}\nfrom purse import *").returncode == 0
    found = _loaded("import purse; purse.Client, purse.Model, purse.Receipt, purse.ProblemError")
    assert found <= CLIENT, found - CLIENT


@pytest.mark.slow
def test_an_estimator_says_what_it_needs() -> None:
    done = python(f"{WITHOUT}\nimport purse\nfrom purse import PrivateLinearSVC")
    assert done.stderr.splitlines()[-1].startswith("purse.extras.NotInstalled: purse.PrivateLinearSVC needs ")
    assert done.stderr.endswith("pip install 'privy-purse[sklearn,solvers]'\n")


@pytest.mark.slow
def test_the_list_of_commands_loads_no_command() -> None:
    code = "from app.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    lines = python(f"import sys\n{code}\nprint('loaded', *sys.modules)").stdout.splitlines()
    found = {name.split(".")[0] for name in lines[-1].split()[1:]} - sys.stdlib_module_names
    tools = ("_", "sitecustomize", "distutils", "coverage", "$coverage")  # nobody's choice, or the measurer's
    third = {name for name in found if not name.startswith(tools)}
    assert third <= HELP, third - HELP
    assert any(line.split()[:1] == ["predict"] for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve"], "pip install 'privy-purse[server]'"),
        (["audit", "dp_gd"], "pip install 'privy-purse[solvers]'"),
        (["predict", "model.json", "rows.csv"], "wrote out.csv: 2 rows"),
    ],
)
def test_what_is_light_works_without_the_rest_and_what_is_not_says_what_to_install(
    tmp_path: Path, arguments: Sequence[str], says: str
) -> None:
    (tmp_path / "model.json").write_text(json.dumps(model_document()))
    (tmp_path / "rows.csv").write_text("age\n25\n50\n")
    out = ["--out", "out.csv"] if arguments[0] == "predict" else []
    code = WITHOUT + f"from app.cli import main\nmain({[*arguments, *out]})"
    done = python(code, tmp_path)
    assert says in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == (0 if out else 1)


@pytest.mark.slow
@pytest.mark.parametrize("command", [[str(Path(sys.executable).parent / "purse")], [sys.executable, "-m", "purse"]])
def test_a_folder_in_the_working_directory_stands_in_for_no_package_of_ours(
    tmp_path: Path, command: Sequence[str]
) -> None:
    for name in ("app", "accounting"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "solvers.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "model.json").write_text(json.dumps(model_document()))
    (tmp_path / "rows.csv").write_text("age\n25\n")
    arguments = [*command, "predict", "model.json", "rows.csv", "--json"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predictions"] == [0.5]


def test_tables_are_as_wide_as_their_widest_cell() -> None:
    assert text.table(("a", "b"), [("long", 1.23456789), ("", None)]) == "a     b\nlong  1.235\n      None\n"
    assert text.facts([("a", 1), ("long", "x")]) == "a     1\nlong  x\n"
