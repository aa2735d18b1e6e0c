"""Which public twin of a dataset."""

from typing import Annotated, Literal

from pydantic import Field

MOST_TWIN_ROWS, MOST_TWIN_VALUES = 100_000, 2_000_000
TwinSource = Literal["declaration", "profile"]
TwinNumber = Annotated[
    int, Field(ge=0, le=2**53 - 1, description="Which of the twins; public: the same number gives the same rows.")
]
