"""docs/reviewing.md lists the files of each guarantee, and a method has few enough to be read by one person."""

from functools import cache
from typing import get_args

import pytest

from solvers.methods import Method
from tests.support import review

NAMES = [str(method.__dataclass_fields__["name"].default) for method in get_args(Method)]
slices = cache(review.slices)  # when a test asks: collection would find them in every process


def test_every_module_that_counts_privacy_is_in_a_list() -> None:
    folders = ("accounting", "solvers/methods", "solvers/statistics")
    files = [file for folder in folders for file in (review.ROOT / folder).rglob("*.py") if file.name != "__init__.py"]
    names = {".".join(file.relative_to(review.ROOT).with_suffix("").parts) for file in files}
    modules = {name for name in names if not name.startswith("solvers.methods.defaults.")}  # choose settings only
    assert modules - {*review.stated(), *review.aside()} == set(), "add a row for each to docs/reviewing.md"


@pytest.mark.slow
def test_the_page_agrees_with_the_imports() -> None:
    assert review.PAGE.read_text() == review.page(), "run: python -m tests.support.review"


def test_a_guarantee_is_not_listed_without_one_of_its_modules() -> None:
    order = ["accounting.plan", "solvers.problem"]
    assert review.in_reading_order("Statistics", {"solvers.problem"}, order) == ["solvers.problem"]
    with pytest.raises(LookupError, match=r"Statistics depends on solvers\.new"):
        review.in_reading_order("Statistics", {"solvers.problem", "solvers.new"}, order)


def test_the_frame_can_be_read_in_one_sitting() -> None:
    assert review.lines(set(review.FRAME)) < review.MOST_FRAME_LINES


@pytest.mark.parametrize("section", review.MOST_SECTION_LINES)
def test_the_files_of_a_guarantee_can_be_reviewed_by_one_person(section: str) -> None:
    assert 0 < review.lines(review.listed(section)) < review.MOST_SECTION_LINES[section]


@pytest.mark.parametrize("method", sorted(NAMES))
def test_a_method_can_be_reviewed_by_one_person(method: str) -> None:
    assert review.lines(slices()[method]) < review.MOST_SLICE_LINES, (
        "move code that this method does not need out of the files that it shares, which docs/reviewing.md lists"
    )
