"""Whatever the pages name of the repository is there: files, folders, and functions by `file.py::name`."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / page for page in ("CONTRIBUTING.md", "README.md", "SECURITY.md"))]
)
FOLDERS = "accounting|solvers|purse|app|building|tests|benchmarks|docs|deploy|docker"
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
PLACE = re.compile(rf"`((?:{FOLDERS})/[^`\s]*)`")
FILE = re.compile(rf"`(?!(?:{FOLDERS})/)((?:[\w.-]+/)*\w[\w.-]*\.(?:py|md))`")
CREATED = {"deploy/secrets"}  # deploy/make_secrets.py creates it


def missing(text: str) -> list[str]:
    """Return the paths named in a page that do not exist. `<name>` and `*` match anything, `{a,b}` both names."""
    prose = FENCED.sub("", text)
    places = [place for named in PLACE.findall(prose) if named not in CREATED for place in _each(named)]
    lost = [place for place in places if not _is_there(place)]
    return lost + [
        file for file in FILE.findall(prose) if not any(f"/{kept}".endswith(f"/{file}") for kept in _files())
    ]


def _each(named: str) -> list[str]:
    prefix, brace, remainder = named.partition("{")
    if not brace:
        return [named]
    inner, _, suffix = remainder.partition("}")
    return [place for part in inner.split(",") for place in _each(f"{prefix}{part}{suffix}")]


def _is_there(place: str) -> bool:
    path, _, name = place.partition("::")
    files = [file for file in ROOT.glob(re.sub(r"<\w+>", "*", path.rstrip("/"))) if file.name != "__pycache__"]
    return bool(files) and (not name or _defines(files[0], name))


def _defines(file: Path, name: str) -> bool:
    last = name.rpartition("::")[2]
    return re.search(rf"^ *(?:async def|def|class) {last}\b|^{last}\b", file.read_text(), re.MULTILINE) is not None


@cache
def _files() -> list[str]:
    kinds = [("*.py", folder) for folder in FOLDERS.split("|")] + [("*.md", "docs")]
    files = [file for kind, folder in kinds for file in (ROOT / folder).rglob(kind)]
    return [str(file.relative_to(ROOT)) for file in (*files, *ROOT.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_named_on_a_page_exist(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_the_sources_of_the_constants_of_adaptive_gd_are_sections_of_their_pages() -> None:
    pages = {"proof": "docs/proofs/adaptive_gd.md", "trials": "docs/benchmarks/trials.md"}
    schedule = " ".join((ROOT / "solvers/methods/defaults/adaptive_gd.py").read_text().split())
    sources = re.findall(r'(proof|trials), "([^"]+)"', schedule)
    assert sources
    for page, section in sources:
        begins = re.compile(rf"^(?:#+ |\*\*){re.escape(section)}\b", re.MULTILINE)
        assert begins.search((ROOT / pages[page]).read_text()), f"{page} has no section {section!r}"


def test_missing_files_and_names_are_reported() -> None:
    wrong = "`app/quotes/speed.py`, `solvers/{losses,looses}/<name>.py`, `app/jobs/store.py::begin_again`, `speeds.py`"
    assert missing(wrong) == [
        "app/quotes/speed.py",
        "solvers/looses/<name>.py",
        "app/jobs/store.py::begin_again",
        "speeds.py",
    ]
    right = "`app/calculation/speed.py`, `solvers/{losses,domains}/<name>.py`, `app/jobs/store.py::end`, `speed.py`"
    assert missing(f"{right}, `/app/quotes`, `app/{{id}}`\n\n```\n`app/quotes/speed.py`\n```\n") == ["app/id"]
