"""The privacy guarantee: epsilon and delta, the unit and the neighbors."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from accounting.errors import OutOfRange
from accounting.numbers import finite, within

EPSILON_RANGE = (1e-3, 100.0)
DELTA_RANGE = (1e-12, 1e-2)
MOST_ROWS = 4096
"""The most rows of one person."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The record in which neighbors differ: one row, or one person with up to `max_rows` rows.

    Parameters
    ----------
    name : "row" or "person"
    max_rows : int in [1, 4096], the most rows of a person that are used; None for rows

    Raises
    ------
    OutOfRange
        if the two do not fit together, or `max_rows` is out of range.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    name: Literal["row", "person"] = "row"
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ("row", "person") or self.is_person != (self.max_rows is not None):
            raise OutOfRange("a unit must be a row, or a person with max_rows")
        if self.max_rows is not None and (type(self.max_rows) is not int or not 1 <= self.max_rows <= MOST_ROWS):
            raise OutOfRange(f"max_rows must be an integer in [1, {MOST_ROWS}]")

    @property
    def is_person(self) -> bool:
        """Whether a record is a person's rows, of which there may be none."""
        return self.name == "person"

    @property
    def slots(self) -> int:
        """k, the number of rows that a record has room for."""
        return self.max_rows or 1

    def counted(self, n: int) -> dict[str, Any]:
        """Return `{"rows": n}` or `{"persons": n}`."""
        return {f"{self.name}s": n}

    def __str__(self) -> str:
        rows = f"{self.max_rows} row{'' if self.max_rows == 1 else 's'}"
        return f"one person, up to {rows}" if self.is_person else "one row"


Relation = Literal["replace_one", "zero_out"]
"""The neighbors of a dataset: one record is replaced by another at its position, or by the null record, which adds 0 to
every answer. n is public and equal for both."""
REPLACE_ONE: Relation = "replace_one"


def sensitivity_factor(relation: Relation) -> float:
    """Return the distance between neighbors' answers in per-record bounds: 1 from a record to null, 2 to another."""
    return 1.0 if relation == "zero_out" else 2.0


@dataclass(frozen=True, slots=True)
class Privacy:
    """P(M(D) in S) <= e^epsilon P(M(D') in S) + delta for all S and all neighbors D, D' (see `Relation`, `Unit`).

    Parameters
    ----------
    epsilon : float in [1e-3, 100]
    delta : float, 0 (pure) or in [1e-12, 1e-2]

    Raises
    ------
    OutOfRange
        if either is not finite or outside its range.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon = finite(self.epsilon, "epsilon")
        delta = finite(self.delta, "delta")
        within(epsilon, "epsilon", *EPSILON_RANGE)
        if delta != 0.0 and not DELTA_RANGE[0] <= delta <= DELTA_RANGE[1]:
            raise OutOfRange(f"delta must be 0 or lie in [{DELTA_RANGE[0]:g}, {DELTA_RANGE[1]:g}]")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0."""
        return self.delta == 0.0
