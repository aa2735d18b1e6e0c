"""An interpreter in which only the light part is installed."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.patience import PATIENCE

_ABSENT: Final = {
    *("alembic", "dask", "distributed", "dp_accounting", "fastapi", "llvmlite", "mpmath", "numba", "onnx", "pandas"),
    *("polars", "psycopg", "pyarrow", "pydantic_settings", "randomgen", "scipy", "sklearn", "sqlalchemy", "starlette"),
    "uvicorn",
}
WITHOUT: Final = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {_ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
"""From here on what `pip install privy-purse` does not install cannot be imported."""


def python(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter, whose own folder is no place to import from."""
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=PATIENCE)
