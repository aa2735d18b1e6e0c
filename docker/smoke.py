"""Check that every import in our packages works, also inside functions, and that libraries can load modules by name.

Runs as the last step of the image's build, which fails if `prune.py` or `root.py` removed too much.
"""

import ast
import importlib
import io
import ssl
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from solvers import kernels

OURS = ("accounting", "solvers", "purse", "app")
# Extras, and the compilers of loops, which the image does not contain.
OPTIONAL = (
    *("opentelemetry.exporter", "opentelemetry.sdk", "app.operations.tracing"),
    *("numba", "llvmlite", "solvers.kernels.", "onnx", "sklearn", "matplotlib"),
    *("purse.estimators", "purse.exports", "purse.onnx_graphs", "python_calamine", "formulaic"),
    *("diffprivlib", "opacus", "opendp", "pipeline_dp", "torch"),
    *(f"purse.integrations.{name}" for name in ("diffprivlib", "opacus", "opendp", "pipelinedp")),
)


def main() -> None:
    imports = load_modules()
    _libraries()
    print(f"   {imports} imports, {len(kernels.ENTRIES)} loops, Parquet, S3, PostgreSQL and TLS work", flush=True)


def load_modules() -> int:
    """Load everything that our modules import, except optional modules; return the number of names."""
    needed = {name for package in OURS for file in _files(package) for name in _imports(file)}
    names = [name for name in sorted(needed) if not name.replace(":", ".").startswith(OPTIONAL)]
    for name in names:
        _load(*name.split(":"))
    return len(names)


def _files(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]).rglob("*.py")


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}:{alias.name}" for alias in node.names)


def _load(name: str, attribute: str = "") -> None:
    module = importlib.import_module(name)  # noqa: TID251
    if attribute not in ("", "*") and not hasattr(module, attribute):
        importlib.import_module(f"{name}.{attribute}")  # noqa: TID251


def _libraries() -> None:
    import pyarrow as pa
    from pyarrow import csv, fs, parquet
    from sqlalchemy import create_engine, text

    table = csv.read_csv(io.BytesIO(b"a,b\n1,x\n2,y\n"))
    for codec in ("none", "snappy", "gzip", "zstd", "brotli", "lz4"):
        parquet.write_table(table, file := pa.BufferOutputStream(), compression=codec)
        assert parquet.read_table(pa.BufferReader(file.getvalue())) == table
    fs.S3FileSystem(anonymous=True, region="us-east-1", endpoint_override="127.0.0.1:9")
    create_engine("postgresql+psycopg://nobody@127.0.0.1:9/none").dialect.server_side_cursors  # noqa: B018
    with create_engine("sqlite://").connect() as connection:
        assert connection.execute(text("select 1")).scalar() == 1
    assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 50


if __name__ == "__main__":
    main()
