"""Public twins of datasets, and public samples that they may be drawn from."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Name, Timestamp, Wire
from purse.wire.files import FileReport

MOST_TWIN_ROWS, MOST_TWIN_VALUES = 100_000, 2_000_000
FEWEST_SAMPLED = 5  # rows, one of which is used for scores
TwinSource = Literal["declaration", "profile", "sample"]
USUAL_SOURCE = "the steward's public sample, the latest released profile, or the declaration, whichever exists first"
TwinNumber = Annotated[
    int, Field(ge=0, le=2**53 - 1, description="Number of the twin. The same number gives the same rows.")
]


class PublicSample(Wire):
    """Rows that a steward declared public. Twins and forecasts may be drawn from them."""

    rows: int
    """Number of rows."""
    published: Annotated[Name, Field(description="Source of the rows, such as a URL, as stated by the steward.")]
    attached_by: Annotated[Name, Field(description="The steward who declared them public.")]
    attached_at: Timestamp


class AttachedSample(PublicSample):
    """The response to the uploader of a public sample."""

    report: FileReport
    """Outcomes of the file's values. The server does not keep them."""
