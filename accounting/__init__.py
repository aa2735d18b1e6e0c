"""The privacy arithmetic: mechanisms, accountants, calibration, filters, ledgers, receipts and noise."""

from accounting.privacy import Privacy, Unit

__all__ = ["Privacy", "Unit"]
