"""Copy the files that Python and a virtual environment need into an empty folder, without a shell or packages.

Usage, in the base of the build: root.py FOLDER VENV. The copied files are Python with its library, the shared libraries
of Python and of the environment, certificates, users and folders. For each Debian package that a file comes from, the
script adds the package's entry, which scanners read, and its licence. A missing library ends the build, because pruning
removed too much.
"""

import compileall
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

UNUSED = (
    *("test", "tests", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtledemo", "config-*"),
    *("site-packages", "dist-packages", "venv", "distutils"),
    *("_dbm.*", "nis.*"),  # need the libraries of Kerberos and more
)
USER = "purse:x:10001:10001::/data:/usr/sbin/nologin\n"


def main() -> None:
    folder, venv = Path(sys.argv[1]), Path(sys.argv[2])
    python, library = Path(os.path.realpath(venv / "bin/python")), Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, _at(folder, library), ignore=shutil.ignore_patterns(*UNUSED), symlinks=True)
    compileall.compile_dir(_at(folder, library), quiet=1, stripdir=str(folder), prependdir="/")
    for link in ("lib", "lib64"):  # a folder of its own, or Debian's link into /usr
        if Path("/", link).is_symlink():
            (folder / link).symlink_to(os.readlink(f"/{link}"))
    copied = {_copy(folder, path) for path in (python, *_linked(python, _at(folder, library), venv))}
    _link(folder, Path(os.readlink(venv / "bin/python3")), python)
    for file in ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/openssl.cnf", "/usr/lib/os-release"):
        copied.add(_copy(folder, Path(file)))
    _link(folder, Path("/etc/os-release"), Path("/usr/lib/os-release"))
    _link(folder, Path("/usr/lib/ssl/cert.pem"), Path("/etc/ssl/certs/ca-certificates.crt"))
    _link(folder, Path("/usr/lib/ssl/openssl.cnf"), Path("/etc/ssl/openssl.cnf"))
    (folder / "etc/passwd").write_text("root:x:0:0::/:/usr/sbin/nologin\n" + USER)
    (folder / "etc/group").write_text("root:x:0:\npurse:x:10001:\n")
    for name, mode in (("tmp", 0o1777), ("mnt", 0o755), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    subprocess.run(["ldconfig", "-r", folder], check=True)
    copied |= {library / "os.py", library / "cProfile.py"}  # one of each package that the library comes from
    packages = sorted({name for path in copied for name in _packages(path)})
    for name in packages:
        _add_entry(folder, name)
    print(f"{folder}: {len(copied)} files and {library}, of {len(packages)} packages: {' '.join(packages)}")


def _at(folder: Path, path: Path) -> Path:
    return folder / path.relative_to("/")


def _copy(folder: Path, path: Path) -> Path:
    """Copy a file to its real path, with a link at the requested path."""
    real = Path(os.path.realpath(path))
    _at(folder, real.parent).mkdir(parents=True, exist_ok=True)
    shutil.copy2(real, _at(folder, real))
    _link(folder, Path(os.path.realpath(path.parent), path.name), real)
    return real


def _link(folder: Path, path: Path, real: Path) -> None:
    if path != real and not _at(folder, path).exists():
        _at(folder, path).parent.mkdir(parents=True, exist_ok=True)
        _at(folder, path).symlink_to(real)


def _linked(*roots: Path) -> set[Path]:
    """Return the shared libraries that a loader opens for the files below, except those of the environment."""
    files = [path for root in roots for path in (root.rglob("*.so*") if root.is_dir() else [root])]
    files = [path for path in files if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    output = subprocess.run(["ldd", *files], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in output.splitlines() if line.startswith("\t")]
    own = {path.name for path in files}  # a library of a wheel finds its neighbours once the wheel loads it
    missing = sorted({line[0] for line in lines if line[1:4] == ["=>", "not", "found"]} - own)
    assert not missing, f"no such library: {missing}"
    libraries = {Path(word) for line in lines for word in line[:3] if word.startswith("/")}
    return {path for path in libraries if not any(path.is_relative_to(root) for root in roots)}


def _packages(path: Path) -> list[str]:
    """Return the Debian package of a file, if any; the package may list it under its path before the merge of /usr."""
    for name in (path, Path("/", *path.parts[2:])):
        output = subprocess.run(["dpkg", "--search", name], check=False, capture_output=True, text=True).stdout
        if output:
            return [output.split(": ")[0]]
    return []


def _add_entry(folder: Path, name: str) -> None:
    """Add the entry of a Debian package, which scanners read, and its licence."""
    entry = subprocess.run(["dpkg", "--status", name], check=True, capture_output=True, text=True).stdout
    bare = name.partition(":")[0]
    status = folder / "var/lib/dpkg/status.d" / bare
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(entry)
    licence = Path("/usr/share/doc", bare, "copyright")
    if licence.exists():
        _copy(folder, licence)


if __name__ == "__main__":
    main()
