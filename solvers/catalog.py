"""Every method by its name: those that ask the oracle, and those that are reviewed because they see the data."""

from solvers.methods import DpGd
from solvers.methods import Method as OracleMethod
from solvers.perturbation import Perturbation
from solvers.perturbation.last_iterate import LastIterateDescent

Method = OracleMethod | Perturbation


def reviewed(method: Method) -> Perturbation | LastIterateDescent | None:
    """The run that sees data, of a resolved method that has one; None for a method that asks the oracle."""
    if isinstance(method, Perturbation):
        return method
    if isinstance(method, DpGd) and method.release == "last" and method.steps and method.step:
        return LastIterateDescent(method.steps, method.step)
    return None


__all__ = ["Method", "OracleMethod", "Perturbation", "reviewed"]
