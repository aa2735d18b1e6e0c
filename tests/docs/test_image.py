"""Modules load without the files that the image leaves out. `make image` also runs the demo in the image."""

import ctypes
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from psutil import _psutil_linux

ROOT = Path(__file__).parents[2]
PRUNE = ROOT / "docker/prune.py"
EXTRAS = (
    "diffprivlib",
    "formulaic",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "opacus",
    "opendp",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "pipeline_dp",
    "python_calamine",
    "sklearn",
)


def test_a_stripped_library_is_smaller_and_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = Path(_psutil_linux.__file__)
    numpy_tests = tmp_path / "numpy/_core/tests"
    for folder in (tmp_path / "part/tests", numpy_tests):
        folder.mkdir(parents=True)
        (folder / "_natype.py").write_text("kept = True")
    (tmp_path / "part/source.pyx").touch()
    (tmp_path / "part/not_elf.so").write_text("GROUP ( libc.so.6 )")
    cut = Path(shutil.copy(library, tmp_path / "part"))
    monkeypatch.setattr(sys, "argv", ["prune.py", str(tmp_path)])
    runpy.run_path(str(PRUNE), run_name="__main__")
    assert "MB, now" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "part").iterdir()) == sorted([cut.name, "not_elf.so"])
    assert [path.name for path in numpy_tests.iterdir()] == ["_natype.py"]
    assert cut.stat().st_size < library.stat().st_size
    assert ctypes.PyDLL(str(cut)).PyInit__psutil_linux


@pytest.mark.slow
def test_the_last_step_of_the_image_needs_no_package_of_an_extra() -> None:
    """Twice the image could not be built, because EXTRAS did not name the packages of a new extra."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {name: {re.split("[>=<[]", needed)[0] for needed in extras[name]} for name in extras}
    installed = packages.pop("solvers") | packages.pop("server")
    absent = set().union(*packages.values()) - installed
    named = {top for top, found in packages_distributions().items() if absent & set(found)}
    assert absent
    assert named <= {extra.split(".")[0] for extra in EXTRAS}
    code = f"import runpy, sys; sys.modules.update(dict.fromkeys({EXTRAS})); "
    code += f"print(runpy.run_path({str(ROOT / 'docker/smoke.py')!r})['load_modules']())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr[-1000:]
    assert int(result.stdout.split()[-1]) > 100
