"""What all losses of one margin share: a loss has its value, its derivative and its bounds, and nothing else."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import within
from solvers import kernels

Floats = NDArray[np.float64]


class OneMargin:
    """f(m, y) of the margin m = <x, w> and a class y in {-1, +1} or a number y.

    `derivative(m, y, ...)`, whose further arguments are the loss's fields in their order, is the one definition of its
    slope: the compiled loops call it by a pointer, and so does `slope`, for arrays.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    takes: ClassVar[Literal["class", "number"]]
    outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    derivative: ClassVar[Callable[..., float]]

    @property
    @abstractmethod
    def slope_bound(self) -> float:
        """sup |df/dm|."""

    @property
    @abstractmethod
    def curvature_bound(self) -> float:
        """sup |d^2f/dm^2|, infinite where the slope jumps."""

    @abstractmethod
    def value(self, margin: Floats, y: Floats) -> Floats:
        """f(m, y), elementwise."""

    @property
    def compiled(self) -> "kernels.Slope":
        """The loss as the loops know it."""
        return _compiled(self)

    def slope(self, margin: Floats, y: Floats) -> Floats:
        """df/dm, a subgradient where it jumps, elementwise, as a new array."""
        m, t = np.broadcast_arrays(np.asarray(margin, dtype=np.float64), np.asarray(y, dtype=np.float64))
        return kernels.derivatives(self.compiled, m.ravel(), t.ravel()).reshape(m.shape)

    def targets(self, y: Floats) -> Floats:
        """Each by itself: +1 where it is positive, else -1 (NaN too); or the number, 0 for NaN, made finite."""
        return np.where(y > 0, 1.0, -1.0) if self.takes == "class" else np.nan_to_num(y)


@cache
def _compiled(loss: OneMargin) -> "kernels.Slope":
    given = [float(getattr(loss, field.name)) for field in fields(loss) if field.name != "name"]  # type: ignore[arg-type]
    a, b, c = given + [0.0] * (kernels.MOST_PARAMETERS - len(given))
    return kernels.Slope(kernels.c_function(loss.derivative).address, a, b, c, float(loss.slope_bound))


def zero_or_within(value: object, name: str, least: float, most: float) -> float:
    """`value` as a float, if it is 0 or in [least, most]; else `OutOfRange`."""
    return 0.0 if value == 0 and value is not False else within(value, name, least, most)
