"""Receipts that an earlier version issued, of every mechanism it had: each must verify for ever."""

import json
from typing import Any, get_args

import pytest

from accounting.errors import ReceiptInvalid
from accounting.mechanisms import Mechanism
from accounting.records.chain import Entry
from accounting.records.receipt import recompute, verify
from tests.support.issued import ISSUED, OTHERS


@pytest.mark.slow
@pytest.mark.parametrize("issued", ISSUED["issued"], ids=lambda issued: issued["document"]["receipt"]["id"])
def test_an_issued_receipt_still_holds(issued: dict[str, Any]) -> None:
    stated = issued["document"]["receipt"]
    if stated["id"] in OTHERS:
        with pytest.raises(ReceiptInvalid, match="other records than"):
            verify(issued["document"], ISSUED["keys"])
        epsilon = recompute(stated | {"rows": OTHERS[stated["id"]]}).epsilon
    else:
        found = verify(issued["document"], ISSUED["keys"], Entry.from_json(ISSUED["entry"]))
        assert (found.holds, found.signature, found.chain, found.reason) == (True, True, True, None)
        assert found.recomputed_epsilon is not None
        epsilon = found.recomputed_epsilon
    then, mechanisms = issued["recomputed_epsilon"], {q["mechanism"] for q in stated["queries"]}
    if "random_allocation" in mechanisms:  # its accounting has been tightened since
        assert 0.98 * then < epsilon <= then * (1 + 1e-6)
    else:
        assert epsilon == pytest.approx(then, rel=1e-6)


def test_they_are_of_the_mechanisms_of_their_day() -> None:
    """A later mechanism has no receipt of that day; the first twelve all do."""
    named = {query["mechanism"] for each in ISSUED["issued"] for query in each["document"]["receipt"]["queries"]}
    assert len(named) == 12
    assert named <= {member.__dataclass_fields__["name"].default for member in get_args(Mechanism)}
    assert json.dumps(ISSUED["keys"]).count('"d"') == 0
