"""Which datasets are neighbors, in words, and what a promise between them is worth between others."""

import math
from typing import Annotated, Any

from pydantic import Field

from accounting.privacy import REPLACE_ONE, Relation
from purse.wire.base import Wire

Neighbors = Annotated[
    Relation,
    Field(
        description="Which datasets are neighbors: replace_one, one record replaced by any other at its position; "
        "zero_out, one record blank in one of them. n is public. A dataset has one for good."
    ),
]
MEANING: dict[Relation, str] = {
    "replace_one": "Promised between any two datasets of n records that differ in one, replaced at its position.",
    "zero_out": "Promised between a dataset and the same one with one record blank, which adds nothing to any answer.",
}


class Elsewhere(Wire):
    """What the same promise is worth between the neighbors of the other relation."""

    neighbors: Neighbors
    epsilon: Annotated[float, Field(description="epsilon there")]
    delta: Annotated[float, Field(description="delta there")]


Meaning = Annotated[str | None, Field(description="What that means; null where it was priced before it was said.")]
Other = Annotated[
    Elsewhere | None,
    Field(
        description="The same promise between the other neighbors: replace_one's holds under zero_out as it is; two "
        "steps through the blank record make (2 epsilon, (1 + e^epsilon) delta) of zero_out's. Null where that delta "
        "reaches 1, which promises nothing; and as `meaning`."
    ),
]


def elsewhere(neighbors: Relation, epsilon: float, delta: float) -> Elsewhere | None:
    """(epsilon, delta) in the other relation: docs/proofs/relation.md; None where that delta would reach 1."""
    if neighbors == REPLACE_ONE:
        return Elsewhere(neighbors="zero_out", epsilon=epsilon, delta=delta)
    twice = (1 + math.exp(epsilon)) * delta
    return Elsewhere(neighbors=REPLACE_ONE, epsilon=2 * epsilon, delta=twice) if twice < 1 else None


def between(neighbors: Relation, epsilon: float, delta: float) -> dict[str, Any]:
    """`neighbors`, `meaning` and `elsewhere` of a statement."""
    return {"neighbors": neighbors, "meaning": MEANING[neighbors], "elsewhere": elsewhere(neighbors, epsilon, delta)}


def lines(neighbors: Relation, epsilon: float, delta: float) -> list[tuple[str, str]]:
    """The same for people."""
    there = elsewhere(neighbors, epsilon, delta)
    worth = f" Under {there.neighbors}: epsilon {there.epsilon:.6g} at delta {there.delta:.3g}." if there else ""
    return [("neighbors", f"{neighbors}: {MEANING[neighbors]}{worth}")]
