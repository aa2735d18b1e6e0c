"""Errors of this floor; every message is a function of public facts only."""


class SolverError(Exception):
    """Root of every error this package raises on purpose."""


class Unsuitable(SolverError, ValueError):
    """The theory does not cover this combination, or a parameter is out of range; the message says which."""


class NeedsDelta(Unsuitable):
    """The method's noise has no epsilon at delta = 0, as it is set."""


class RunFailed(SolverError):
    """A run may not be released: its transcript is not covered by its plan, or its result is not finite."""
