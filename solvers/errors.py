"""Errors of the solvers. Every message is a function of public facts only."""


class SolverError(Exception):
    """The base class of all errors that this package raises on purpose."""


class Unsuitable(SolverError, ValueError):
    """A combination that the theory does not cover, or a parameter out of range; the message names it."""


class NeedsDelta(Unsuitable):
    """A request for delta = 0 from a method whose noise needs delta > 0."""


class RunFailed(SolverError):
    """A run that may not be released: its transcript exceeds its plan, or its result is not finite."""
