"""The steward's decision whether programs elsewhere may reserve a dataset's budget, and whether it is refunded."""

from typing import Literal

from app.datasets.store import DatasetRow

Policy = Literal["refund", "no_refund", "refused"]


def policy(dataset: DatasetRow) -> Policy:  # noqa: ARG001  # until datasets state it
    """Return the policy of a dataset."""
    return "refund"
