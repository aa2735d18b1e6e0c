"""Distinguishing audits: lower bounds on epsilon from attacks on two neighboring datasets."""

from solvers.audit.cases import CASES
from solvers.audit.findings import Finding, audit

__all__ = ["CASES", "Finding", "audit"]
