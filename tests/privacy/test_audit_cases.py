"""`purse audit` for every method: the promise holds, and half the noise is seen."""

from typing import get_args

import pytest

from solvers.audit import CASES, audit
from solvers.methods import Method
from tests.support.audit import source

RUNS = 1500


def test_every_method_has_a_case() -> None:
    names = {str(member.__dataclass_fields__["name"].default) for member in get_args(Method)}
    assert names | {"profile"} == {case.method.name for case in CASES.values()}
    assert names <= set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_promise_is_kept_and_half_the_noise_is_caught(name: str) -> None:
    findings = audit(name, RUNS, lambda which: source(31, which))
    assert all(f.lower_bound <= f.promise for f in findings)
    assert any(f.half_noise > f.promise for f in findings)
