"""Which public twin of a dataset, and the public sample that it may be drawn from."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Name, Timestamp, Wire
from purse.wire.files import FileReport

MOST_TWIN_ROWS, MOST_TWIN_VALUES = 100_000, 2_000_000
FEWEST_SAMPLED = 5  # of which one is scored on
TwinSource = Literal["declaration", "profile", "sample"]
USUAL_SOURCE = "the public sample that the steward attached, else the latest released profile, else the declaration"
TwinNumber = Annotated[
    int, Field(ge=0, le=2**53 - 1, description="Which of the twins; public: the same number gives the same rows.")
]


class PublicSample(Wire):
    """Rows that the steward vouches for as public: twins and forecasts may be drawn from them."""

    rows: Annotated[int, Field(description="How many.")]
    published: Annotated[Name, Field(description="Where, as the steward says.")]
    attached_by: Annotated[Name, Field(description="The steward who vouches for it.")]
    attached_at: Timestamp


class AttachedSample(PublicSample):
    """The answer to whoever sent the file."""

    report: Annotated[FileReport, Field(description="What became of the file's values; it is kept nowhere.")]
