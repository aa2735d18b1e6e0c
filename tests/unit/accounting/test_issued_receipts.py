"""Receipts of every mechanism that earlier versions issued, which must always verify."""

import json
from typing import Any, get_args

import pytest

from accounting.errors import ReceiptInvalid
from accounting.mechanisms import Mechanism
from accounting.records.chain import Entry
from accounting.records.receipt import recompute, verify
from tests.support.issued import ISSUED, MISMATCHED, UNPROVED

TIGHTENED = {"random_allocation": 0.98, "laplace": 0.92}
"""Mechanisms whose accounting has been tightened since, and the smallest ratio of the epsilons now and then."""


@pytest.mark.slow
@pytest.mark.parametrize("issued", ISSUED["issued"], ids=lambda issued: issued["document"]["receipt"]["id"])
def test_an_issued_receipt_still_holds(issued: dict[str, Any]) -> None:
    stated = issued["document"]["receipt"]
    if stated["id"] == UNPROVED:
        result = verify(issued["document"], ISSUED["keys"], Entry.from_json(ISSUED["entry"]))
        assert (result.holds, result.signature, result.chain) == (False, True, True)
        assert result.recomputed_epsilon is not None
        assert result.recomputed_epsilon > 1.01 * stated["epsilon"]
        return
    if stated["id"] in MISMATCHED:
        with pytest.raises(ReceiptInvalid, match="records"):
            verify(issued["document"], ISSUED["keys"])
        epsilon = recompute(stated | {"rows": MISMATCHED[stated["id"]]}).epsilon
    else:
        result = verify(issued["document"], ISSUED["keys"], Entry.from_json(ISSUED["entry"]))
        assert (result.holds, result.signature, result.chain, result.reason) == (True, True, True, None)
        assert result.recomputed_epsilon is not None
        epsilon = result.recomputed_epsilon
    then, mechanisms = issued["recomputed_epsilon"], {q["mechanism"] for q in stated["queries"]}
    smallest_ratio = next((ratio for name, ratio in TIGHTENED.items() if name in mechanisms), 1 - 1e-6)
    assert smallest_ratio * then < epsilon <= then * (1 + 1e-6)


def test_they_are_of_the_mechanisms_of_their_day() -> None:
    """A later mechanism has no receipt of that day; the first twelve all do."""
    named = {query["mechanism"] for each in ISSUED["issued"] for query in each["document"]["receipt"]["queries"]}
    assert len(named) == 12
    assert named <= {member.__dataclass_fields__["name"].default for member in get_args(Mechanism)}
    assert json.dumps(ISSUED["keys"]).count('"d"') == 0
