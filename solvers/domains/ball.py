"""The base of bounded domains: a radius."""

from dataclasses import dataclass
from typing import Any, ClassVar

from accounting.numbers import within


@dataclass(frozen=True, slots=True)
class Ball:
    """A bounded domain with a radius in [1e-6, 1e6]."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    radius: float

    def __post_init__(self) -> None:
        within(self.radius, "radius", 1e-6, 1e6)

    def diameter(self, dimension: int) -> float:  # noqa: ARG002
        """Return the largest ||u - w||_2 over C: 2 radius, between opposite points."""
        return 2 * self.radius
