"""Receipts that earlier versions issued, of every mechanism that each version had."""

from pathlib import Path

from accounting.records.documents import parse

ISSUED = parse((Path(__file__).parent / "issued_receipts.json").read_bytes())
# Receipts that were made for a test and state other record counts than their mechanisms fit, and the counts that fit.
MISMATCHED = {
    "r resampled laplace": 1000,
    "r every mechanism with a Renyi curve": 50,
    "r extremes": 10**9,
}
# A receipt that was made for a test and states a price that is not proved: ordered slots that hold all records.
UNPROVED = "r allocation ordered"
