"""docs/reviewing.md names what each method's promise rests on, and that is little enough to be read."""

from functools import cache
from typing import get_args

import pytest

from solvers.methods import Method
from tests.support import review

NAMES = [str(method.__dataclass_fields__["name"].default) for method in get_args(Method)]
slices = cache(review.slices)  # when a test asks: collection would find them in every process


@pytest.mark.slow
def test_the_page_is_what_the_imports_say() -> None:
    assert review.PAGE.read_text() == review.page(), "run: python -m tests.support.review"


def test_the_frame_can_be_read_in_one_sitting() -> None:
    assert review.lines(set(review.FRAME)) < review.MOST_FRAME


@pytest.mark.parametrize("method", sorted(NAMES))
def test_a_method_can_be_reviewed_by_one_person(method: str) -> None:
    assert review.lines(slices()[method]) < review.MOST_SLICE
