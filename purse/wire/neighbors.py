"""Neighboring datasets in words, and conversion of a guarantee between the two relations."""

import math
from typing import Annotated, Any

from pydantic import Field

from accounting.privacy import REPLACE_ONE, Relation
from purse.wire.base import Wire

Neighbors = Annotated[
    Relation,
    Field(
        description="Which datasets are neighbors. replace_one: one record is replaced by any other. zero_out: one "
        "record is blank in one of them. n is public. The relation of a dataset never changes."
    ),
]
MEANING: dict[Relation, str] = {
    "replace_one": "The guarantee holds for any two datasets of n records that differ in one, replaced at its "
    "position.",
    "zero_out": "The guarantee holds for a dataset and the same one with one record blank, which adds nothing to any "
    "answer.",
}


class Elsewhere(Wire):
    """The same guarantee for the neighbors of the other relation."""

    neighbors: Neighbors
    epsilon: float
    """Epsilon for these neighbors."""
    delta: float
    """Delta for these neighbors."""


Meaning = Annotated[str, Field(description="The meaning of `neighbors` in words.")]
OtherRelation = Annotated[
    Elsewhere | None,
    Field(
        description="The same guarantee for the neighbors of the other relation. A guarantee for replace_one holds for "
        "zero_out unchanged. A guarantee for zero_out becomes (2 epsilon, (1 + e^epsilon) delta). Null if that delta "
        "reaches 1."
    ),
]


def elsewhere(neighbors: Relation, epsilon: float, delta: float) -> Elsewhere | None:
    """Return the guarantee in the other relation (docs/proofs/relation.md), or None if its delta would reach 1."""
    if neighbors == REPLACE_ONE:
        return Elsewhere(neighbors="zero_out", epsilon=epsilon, delta=delta)
    twice = (1 + math.exp(epsilon)) * delta
    return Elsewhere(neighbors=REPLACE_ONE, epsilon=2 * epsilon, delta=twice) if twice < 1 else None


def between(neighbors: Relation, epsilon: float, delta: float) -> dict[str, Any]:
    """Return the fields `neighbors`, `meaning` and `elsewhere` of a statement."""
    return {"neighbors": neighbors, "meaning": MEANING[neighbors], "elsewhere": elsewhere(neighbors, epsilon, delta)}
