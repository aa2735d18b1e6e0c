"""The privacy arithmetic: mechanisms, accountants, calibration, filter, ledger, receipts and noise."""

from accounting.privacy import Privacy, Unit

__all__ = ["Privacy", "Unit"]
