"""Distinguishing audits: does any attacker tell two neighbors apart better than the promise allows?"""

from solvers.audit.cases import CASES, Finding, audit

__all__ = ["CASES", "Finding", "audit"]
