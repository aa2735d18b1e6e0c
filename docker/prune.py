"""Remove files that the service never loads from a virtual environment, and unused sections from its libraries.

Usage: prune.py SITE-PACKAGES. Prints the megabytes before and after. `docker/build-without-engine.sh` runs the image's
demo on the result.
"""

import shutil
import struct
import sys
from pathlib import Path

# Without these, the demo, an upload of each kind and `purse audit` still run.
UNUSED = (
    "*/tests",
    "*/*/tests",
    "*/*/*/tests",
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/_cuda*",
    "pyarrow/_flight*",
    "pyarrow/_pyarrow_cpp_tests*",
    "pyarrow/_substrait*",
    "pyarrow/libarrow_flight*",
    "pyarrow/libarrow_python_flight*",
    "pyarrow/libarrow_python*.so",  # the same file as .so.N, which is the one that is loaded
    "pyarrow/libarrow_python*.so.*.*.*",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/distutils",
    "numpy/random/lib",
    "pygments/lexers/[a-z]*",
    "scipy/cluster",
    "scipy/datasets",
    "scipy/io",
    "sqlalchemy/testing",
    "*/**/*.pyi",
    "*/**/*.pyx",
    "*/**/*.pxi",
    "*/**/*.pxd",
    "*/**/*.[cha]",
    "*/**/*.hpp",
)
NEEDED = ("numpy/_core/tests/__init__.py", "numpy/_core/tests/_natype.py")  # read by numpy.testing, which scipy loads


def main() -> None:
    root = Path(sys.argv[1])
    before = _megabytes(root)
    needed = {path: path.read_bytes() for name in NEEDED for path in root.glob(name)}
    for pattern in UNUSED:
        for path in root.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for path, content in needed.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    for library in root.rglob("*.so*"):
        if library.is_file() and not library.is_symlink():
            _strip(library)
    print(f"{root}: {before} MB, now {_megabytes(root)} MB")


def _strip(library: Path) -> None:
    """Cut an ELF file behind its last segment: loaders read segments, and only linkers and debuggers read sections."""
    with library.open("r+b") as file:
        head = bytearray(file.read(64))
        if head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
            return
        table, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(table)
        entries = file.read(size * count)
        ends = [sum(struct.unpack_from("<Q16xQ", entries, size * n + 8)) for n in range(count)]
        struct.pack_into("<Q", head, 40, 0)
        struct.pack_into("<HH", head, 60, 0, 0)
        file.seek(0)
        file.write(head)
        file.truncate(max(*ends, table + size * count))


def _megabytes(root: Path) -> int:
    return round(sum(path.lstat().st_blocks for path in root.rglob("*")) * 512 / 1e6)


if __name__ == "__main__":
    main()
