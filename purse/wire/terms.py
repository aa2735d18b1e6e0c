"""Terms of a model: public functions of declared columns, such as powers, splines and interactions."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from purse.wire.base import Name, Wire

MAX_TERMS = 256
_LARGEST_CONSTANT = 1e50
_SMALLEST_SCALE = 1e-50
_MAX_FACTORS = 3
_MAX_KNOTS = 20
_MAX_POWER = 6
_MAX_DEGREE = 3
_MAX_MERGED = 2**10


class MergedLevel(Wire):
    """A level in place of several categories."""

    level: Annotated[str, Field(min_length=1, max_length=500)]
    """Name of the level."""
    categories: Annotated[list[str], Field(min_length=1)]
    """The declared categories that it replaces."""


class Factor(Wire):
    """A function of the value of one declared column.

    A number x becomes ((x - center) / scale)^power. With `knots` it becomes B-splines of the column's declared range
    instead. A category is encoded by its levels, of which some may be merged. A missing value is first replaced by the
    default of its column.
    """

    column: Name
    """The declared column."""
    center: Annotated[float, Field(ge=-_LARGEST_CONSTANT, le=_LARGEST_CONSTANT)] = 0.0
    """For a number: the constant to subtract."""
    scale: Annotated[float, Field(ge=_SMALLEST_SCALE, le=_LARGEST_CONSTANT)] = 1.0
    """For a number: the constant to divide by."""
    power: Annotated[int, Field(ge=1, le=_MAX_POWER)] = 1
    """For a number: the exponent."""
    knots: Annotated[list[float], Field(max_length=_MAX_KNOTS)] | None = None
    """For a number: the inner knots of B-splines, in increasing order, inside the declared bounds, and more than a
    millionth of their distance apart. The number of B-splines is the number of knots plus the degree."""
    degree: Annotated[int, Field(ge=1, le=_MAX_DEGREE)] = 3
    """Degree of the B-splines. 1 gives a piecewise linear function, 3 a smooth one."""
    merge: Annotated[list[MergedLevel] | None, Field(min_length=1, max_length=_MAX_MERGED)] = None
    """For a category: new levels, each in place of several categories."""
    reference: str | None = None
    """For a category: the level that others are compared with. The default is the first one."""

    @property
    def is_plain(self) -> bool:
        """Whether the factor is its column, unchanged."""
        return self == Factor(column=self.column)

    @property
    def has_number_settings(self) -> bool:
        """Whether a field is set that only numbers have."""
        return self != Factor(column=self.column, merge=self.merge, reference=self.reference)

    @property
    def has_category_settings(self) -> bool:
        """Whether a field is set that only categories have."""
        return self.merge is not None or self.reference is not None

    @model_validator(mode="after")
    def _one_function(self) -> Self:
        if self.knots is None and self.degree != 3:
            raise ValueError("degree is the degree of B-splines. Add knots, or leave out degree")
        if self.knots is not None and (self.center, self.scale, self.power) != (0.0, 1.0, 1):
            raise ValueError("knots cannot be combined with center, scale or power. Leave out knots, or these three")
        return self


class Term(Wire):
    """A product of functions of declared columns: one column, a power or splines of it, or an interaction.

    The product of numbers is a number. The product of categories is a category with one level for each combination.
    The product of a number and a category is one number for each level. As in R, a level of an interaction is compared
    with the reference of a category if the term without that category is also in the model.
    """

    factors: Annotated[list[Factor], Field(min_length=1, max_length=_MAX_FACTORS)]
    """The factors, each of another column."""
