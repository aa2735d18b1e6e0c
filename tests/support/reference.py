"""The slow reference accountants of the shared folder, where the folder is there."""

import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "reference"


def reference(name: str) -> ModuleType:
    """The reference module of that name; skips the test where the folder is absent."""
    path = FOLDER / f"{name}.py"
    if not path.exists():
        pytest.skip("the shared folder with the reference accountants is not here")
    return _load(name, path)


@lru_cache  # one of them spends seconds on quadrature nodes when it is imported
def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"reference_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(FOLDER))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
