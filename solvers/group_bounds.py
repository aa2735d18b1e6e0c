"""Per-record bounds of sums over the records of each group, from public facts only.

Proof: docs/proofs/statistics.md.
"""

import math

from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor


def parts(described: int, relation: Relation = REPLACE_ONE) -> float:
    """Return the per-record bound of counts in which a record is in at most one cell for each of so many features."""
    return math.sqrt(described / sensitivity_factor(relation))


def moments(numbers: int, relation: Relation = REPLACE_ONE) -> float:
    """Return the per-record bound of sums of u and u o u in each group, with u in [-1, 1]^numbers.

    Replacing a record moves them by at most 2 sqrt(numbers). The squares add nothing to this, because those of opposite
    numbers are equal.
    """
    return math.sqrt(numbers * (1 if relation == REPLACE_ONE else 2))
