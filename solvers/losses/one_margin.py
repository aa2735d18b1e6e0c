"""The base class of losses with one margin. A loss adds its value, its derivative and its bounds."""

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
    """A loss f(m, y) of the margin m = <x, w> and a target y, a class in {-1, +1} or a number.

    `derivative(m, y, ...)` is the only definition of the slope. Its further arguments are the loss's fields in order.
    The compiled loops call it by a pointer, and so does `slope`, for arrays. It calls only abs, min, max, `kernels.exp`
    and `math.pow`, because the time of any other function may depend on a record (docs/proofs/oracle.md).
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
        """Smallest bound on |df/dm|."""

    @property
    @abstractmethod
    def curvature_bound(self) -> float:
        """Smallest bound on |d^2f/dm^2|; infinite if the slope jumps."""

    @abstractmethod
    def value(self, margin: Floats, y: Floats) -> Floats:
        """Return f(m, y), elementwise."""

    @property
    def compiled(self) -> "kernels.Slope":
        """Form of the loss that the compiled loops use."""
        return _compiled(self)

    def slope(self, margin: Floats, y: Floats) -> Floats:
        """Return df/dm, or a subgradient where it jumps, elementwise, as a new array."""
        m, t = np.broadcast_arrays(np.asarray(margin, dtype=np.float64), np.asarray(y, dtype=np.float64))
        return kernels.derivatives(self.compiled, m.ravel(), t.ravel()).reshape(m.shape)

    def targets(self, y: Floats) -> Floats:
        """Return coded targets: a class as +1 if positive, else -1 (also NaN); a number as finite, with 0 for NaN."""
        return np.where(y > 0, 1.0, -1.0) if self.takes == "class" else np.nan_to_num(y)


@cache
def _compiled(loss: OneMargin) -> "kernels.Slope":
    parameters = [float(getattr(loss, field.name)) for field in fields(loss) if field.name != "name"]  # type: ignore[arg-type]
    a, b, c = parameters + [0.0] * (kernels.MOST_PARAMETERS - len(parameters))
    return kernels.Slope(kernels.c_function(loss.derivative).address, a, b, c, float(loss.slope_bound))


def zero_or_within(value: object, name: str, smallest: float, largest: float) -> float:
    """Return `value` as a float. Raise `OutOfRange` unless it is 0 or in [smallest, largest]."""
    return 0.0 if value == 0 and value is not False else within(value, name, smallest, largest)
