"""Which public twin of a dataset."""

from typing import Annotated, Literal

from pydantic import Field

MOST_TWIN_ROWS, MOST_TWIN_VALUES = 100_000, 2_000_000
TwinSource = Literal["declaration", "profile"]
Seed = Annotated[int, Field(ge=0, lt=2**53, description="Public: the same seed gives the same twin.")]
