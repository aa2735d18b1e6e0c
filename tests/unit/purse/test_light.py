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
    *("rfc8785", "mdurl", "socksio", "brotli", "brotlicffi", "zstandard", "h2", "backports"),
}
HELP = {"annotated_doc", "app", "shellingham", "typer", "rich"}


def _loaded(code: str) -> set[str]:
    """Return the packages outside the standard library that a fresh interpreter loads to run the code."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before, sep='\\n')"
    packages = {name.split(".")[0] for name in python(script).stdout.split("\n") if name}
    return {name for name in packages - sys.stdlib_module_names if not name.startswith("_")}


@pytest.mark.slow
def test_an_import_loads_nothing_and_the_client_loads_little() -> None:
    assert _loaded("import purse") == {"purse"}
    assert python(f"{WITHOUT}\nfrom purse import *").returncode == 0
    packages = _loaded("import purse; purse.Client, purse.Model, purse.Receipt, purse.ProblemError")
    assert packages <= CLIENT, packages - CLIENT


@pytest.mark.slow
def test_an_estimator_names_the_packages_that_it_needs() -> None:
    result = python(f"{WITHOUT}\nimport purse\nfrom purse import PrivateLinearSVC")
    assert result.stderr.splitlines()[-1].startswith("purse.extras.NotInstalled: purse.PrivateLinearSVC needs ")
    assert result.stderr.endswith("pip install 'privy-purse[sklearn,solvers]'\n")


@pytest.mark.slow
def test_the_list_of_commands_loads_no_command() -> None:
    code = "from app.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    lines = python(f"import sys\n{code}\nprint('loaded', *sys.modules)").stdout.splitlines()
    packages = {name.split(".")[0] for name in lines[-1].split()[1:]} - sys.stdlib_module_names
    tools = ("_", "sitecustomize", "distutils", "coverage", "$coverage")  # loaded by the interpreter or by coverage
    required = {name for name in packages if not name.startswith(tools)}
    assert required <= HELP, required - HELP
    assert any(line.split()[:1] == ["predict"] for line in lines)


@pytest.mark.slow
def test_the_help_of_every_command_needs_only_the_client() -> None:
    result = python(f"{WITHOUT}\nfrom app.cli.commands import EVERY, program\nprogram(EVERY)")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve"], "pip install 'privy-purse[server]'"),
        (["audit", "dp_gd"], "pip install 'privy-purse[solvers]'"),
        (["predict", "model.json", "rows.csv"], "wrote out.csv: 2 rows"),
    ],
)
def test_a_light_command_runs_without_the_extras_and_other_commands_say_what_to_install(
    tmp_path: Path, arguments: Sequence[str], says: str
) -> None:
    (tmp_path / "model.json").write_text(json.dumps(model_document()))
    (tmp_path / "rows.csv").write_text("age\n25\n50\n")
    out = ["--out", "out.csv"] if arguments[0] == "predict" else []
    code = WITHOUT + f"from app.cli import main\nmain({[*arguments, *out]})"
    result = python(code, tmp_path)
    assert says in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1
    assert result.returncode == (0 if out else 1)


@pytest.mark.slow
@pytest.mark.parametrize("command", [[str(Path(sys.executable).parent / "purse")], [sys.executable, "-m", "purse"]])
def test_a_folder_in_the_working_directory_does_not_replace_a_package_of_ours(
    tmp_path: Path, command: Sequence[str]
) -> None:
    for name in ("app", "accounting"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "solvers.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "model.json").write_text(json.dumps(model_document()))
    (tmp_path / "rows.csv").write_text("age\n25\n")
    arguments = [*command, "predict", "model.json", "rows.csv", "--json"]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["predictions"] == [0.5]


def test_tables_are_as_wide_as_their_widest_cell() -> None:
    assert text.table(("a", "b"), [("long", 1.23456789), ("", None)]) == "a     b\nlong  1.235\n      None\n"
    assert text.facts([("a", 1), ("long", "x")]) == "a     1\nlong  x\n"
