"""The privacy arithmetic: mechanisms, accountants, calibration, filter, ledger, receipts and noise."""

from accounting.privacy import Privacy

__all__ = ["Privacy"]
