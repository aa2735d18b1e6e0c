"""The refusal of a frozen dataset."""

from accounting.records.ledger import LedgerState
from app.http.errors import ApiError


def refuse_frozen(state: LedgerState) -> None:
    """Raise an `ApiError` dataset_frozen, which states the cause, if nothing may be charged or started."""
    if not state.frozen:
        return
    cause = "A steward, or a charge above the budget, has frozen the dataset."
    if state.rolled_back:
        cause = "An older copy of the database was restored, so charges of this dataset may be lost."
    elif state.is_exceeded:
        cause = "Releases outside this service have cost more than the budget allowed."
    raise ApiError(
        "dataset_frozen", f"Nothing was charged. {cause} No job starts until a steward unfreezes the dataset."
    )
